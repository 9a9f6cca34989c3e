"""The assertions of the test kit, in the test's own event loop."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.testing import cluster

pytestmark = pytest.mark.anyio


async def test_what_was_published_is_asserted_in_any_order_and_repeatedly() -> None:
    async with cluster() as running, nsq.produce(nsqd=running.tcp_addresses) as producer:
        for number in (b"1", b"2", b"3"):
            await producer.publish("orders", number, headers={"number": number.decode()})
        found = await running.assert_published("orders", b"3")
        assert (found.payload, found.headers) == (b"3", {"number": "3"})
        assert (await running.assert_published("orders", b"1")).payload == b"1"
        again = await running.assert_published(
            "orders", where=lambda message: message.headers["number"] == "3"
        )
        assert again is found
        bodies = [message.payload for message in await running.messages("orders")]
        assert sorted(bodies) == [b"1", b"2", b"3"]


async def test_text_is_published_and_asserted_as_utf_8() -> None:
    async with cluster(nsqds=1) as running:
        await running.publish("orders", "Käse")
        await running.publish("orders", "Brot", headers={"kind": "food"})
        assert (await running.assert_published("orders", "Käse")).body == "Käse".encode()
        assert (await running.assert_published("orders", "Brot")).headers == {"kind": "food"}


@pytest.mark.parametrize("payload", [1, None, ["text"]])
async def test_what_is_neither_bytes_nor_text_is_refused(payload: Any) -> None:
    async with cluster(nsqds=1) as running:
        for headers in (None, {"kind": "food"}):
            with pytest.raises(nsq.InvalidBody, match="use str, bytes"):
                await running.publish("orders", payload, headers=headers)
        if payload is not None:  # which stands for any payload
            with pytest.raises(nsq.InvalidBody, match="use str, bytes"):
                await running.assert_published("orders", payload)


async def test_what_was_not_published_fails_with_what_was() -> None:
    async with cluster(nsqds=1) as running:
        (nsqd,) = running.nsqds
        await nsqd.publish("orders", b"1")
        await nsqd.messages("orders", count=1, timeout=30)
        with pytest.raises(
            AssertionError, match=re.escape("b'2' in orders/nsq-testing within 0.1 s: it got b'1'")
        ):
            await nsqd.assert_published("orders", b"2", timeout=0.1)
        with pytest.raises(AssertionError, match="that `where` accepts"):
            await nsqd.assert_published("orders", where=lambda message: message.attempts > 1, timeout=0)
        with pytest.raises(AssertionError, match="got 1 of 2 messages within"):
            await nsqd.messages("orders", count=2, timeout=0.1)
        with pytest.raises(AssertionError, match="it got none"):
            await nsqd.assert_published("payments", timeout=0.1)


async def test_an_assertion_waits_for_what_comes_later() -> None:
    async with cluster(nsqds=1) as running, anyio.create_task_group() as tasks:

        async def publish_later() -> None:
            await running.wait_for_depth("orders", "nsq-testing", 0)
            await running.publish("orders", b"late")

        tasks.start_soon(publish_later)
        await running.assert_published("orders", b"late", timeout=30)
        tasks.start_soon(running.publish, "orders", b"later")
        assert len(await running.messages("orders", count=2, timeout=30)) == 2


async def test_no_messages_are_no_failure_and_create_no_topic() -> None:
    async with cluster(nsqds=1) as running:
        assert await running.messages("orders") == []
        async with nsq.http.Nsqd(running.nsqds[0].http_url) as http:
            assert (await http.stats()).topics == ()


async def test_where_others_get_the_messages_the_kit_says_so() -> None:
    async with cluster(nsqds=1) as running:
        (nsqd,) = running.nsqds
        async with nsq.consume("orders", "billing", nsqd=nsqd.tcp_address) as consumer:
            await consumer.ready()
            await nsqd.publish("orders", b"1")
        with pytest.raises(nsq.InvalidOption, match=r"messages went to billing of orders.*tap\('orders'\)"):
            await nsqd.assert_published("orders", b"1")
        await nsqd.assert_published("orders", b"1", channel="billing")
        await nsqd.tap("orders")
        await nsqd.publish("orders", b"2")
        assert [message.payload for message in await nsqd.messages("orders")] == [b"2"]
        await nsqd.wait_for_depth("orders", "billing", 1)


async def test_the_depth_of_a_channel_and_of_a_topic() -> None:
    async with cluster() as running:
        for number in range(4):
            await running.publish("orders", b"%d" % number)
        await running.wait_for_depth("orders", None, 4)
        with pytest.raises(AssertionError, match="orders/billing has not been created, and not a depth of 0"):
            await running.wait_for_depth("orders", "billing", 0, timeout=0.1)
        async with nsq.consume("orders", "billing", nsqd=running.tcp_addresses, max_in_flight=2) as consumer:
            first = await anext(aiter(consumer))
            await running.wait_for_depth("orders", "billing", 2)
            with pytest.raises(
                AssertionError, match="2 messages in flight and 0 deferred, and not no messages"
            ):
                await running.wait_until_empty("orders", "billing", timeout=0.1)
            first.requeue(60, backoff=False)
        with pytest.raises(AssertionError, match="a depth of 3, 0 messages in flight and 1 deferred"):
            await running.wait_until_empty("orders", "billing", timeout=0.3)
        assert len(await running.messages("orders", "billing")) == 3


async def test_a_consumer_has_handled_everything() -> None:
    handled: list[bytes] = []

    async def handle(message: nsq.Message) -> None:
        await anyio.sleep(0.01)
        handled.append(message.body)

    async with cluster() as running, anyio.create_task_group() as tasks:
        for number in range(10):
            await running.publish("orders", b"%d" % number)
        async with nsq.consume("orders", "billing", nsqlookupd=running.nsqlookupd_urls) as consumer:
            tasks.start_soon(partial(consumer.run, handle, concurrency=4))
            await running.wait_until_empty("orders", "billing", timeout=30)
            assert sorted(handled) == [b"%d" % number for number in range(10)]
            consumer.stop()


async def test_messages_are_taken_however_often_they_were_tried() -> None:
    async with cluster(nsqds=1) as running:
        await running.publish("orders", b"1")
        options = nsq.ConsumerOptions(max_attempts=0)
        async with nsq.consume("orders", "billing", nsqd=running.tcp_addresses, options=options) as consumer:
            for _ in range(7):
                (await anext(aiter(consumer))).requeue(0, backoff=False)
        (message,) = await running.messages("orders", "billing", count=1)
        assert message.attempts == 8


async def test_another_consumer_may_take_what_waited() -> None:
    async with (
        cluster(nsqds=1) as running,
        nsq.consume("orders", "billing", nsqd=running.tcp_addresses, max_in_flight=1) as consumer,
    ):
        await consumer.ready()
        await running.publish("orders", b"1")
        await running.publish("orders", b"2")
        await running.wait_for_depth("orders", "billing", 1)
        assert len(await running.messages("orders", "billing")) == 1


async def test_a_paused_topic_keeps_its_messages() -> None:
    async with cluster(nsqds=1) as running:
        (nsqd,) = running.nsqds
        async with nsq.http.Nsqd(nsqd.http_url) as http:
            await http.create_topic("orders")
            await http.pause_topic("orders")
        await nsqd.publish("orders", b"1")
        with pytest.raises(AssertionError, match="1 messages of orders/nsq-testing still wait after"):
            await nsqd.messages("orders", timeout=0.2)


async def test_many_messages_are_summed_up() -> None:
    async with cluster(nsqds=1) as running:
        async with nsq.http.Nsqd(running.nsqds[0].http_url) as http:
            await http.publish_many("orders", [b"x" * 1000] * 14)
        await running.messages("orders", count=14, timeout=30)
        with pytest.raises(AssertionError, match="and 4 more") as caught:
            await running.assert_published("orders", b"y", timeout=0.3)
        assert len(str(caught.value)) < 2000


async def test_what_is_not_valid_is_refused() -> None:
    async with cluster(nsqds=1) as running:
        with pytest.raises(nsq.InvalidName):
            await running.messages("not valid")
        with pytest.raises(nsq.InvalidName):
            await running.wait_for_depth("orders", "not valid", 0)
        with pytest.raises(nsq.InvalidOption, match="timeout=-1"):
            await running.assert_published("orders", timeout=-1)
        with pytest.raises(nsq.InvalidOption, match="depth=-1"):
            await running.wait_for_depth("orders", "billing", -1)
        with pytest.raises(nsq.InvalidOption, match="count=-1"):
            await running.messages("orders", count=-1)
    with pytest.raises(nsq.InvalidOption, match="nsqds=65"):
        cluster(nsqds=65)


async def test_nsqds_are_registered_when_the_block_begins() -> None:
    async with cluster(nsqds=3, nsqlookupds=2) as running:
        assert len(running.tcp_addresses) == 3
        for url in running.nsqlookupd_urls:
            async with nsq.http.Nsqlookupd(url) as http:
                found = {f"{each.broadcast_address}:{each.tcp_port}" for each in await http.nodes()}
            assert found == set(running.tcp_addresses)


async def test_plain_calls_in_an_event_loop_are_refused() -> None:
    async with cluster(nsqds=1) as running:
        with pytest.raises(nsq.WouldDeadlock, match=r"await messages\(\)"):
            running.sync.messages("orders")
        with pytest.raises(nsq.WouldDeadlock):  # in a thread, which the event loop waits for
            await anyio.to_thread.run_sync(running.nsqds[0].sync.messages, "orders")
