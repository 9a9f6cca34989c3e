"""How the embedded nsqd delivers messages: queues, RDY, answers, timeouts, deferral."""

import time
from collections import Counter

import anyio
import pytest

from nsq_anyio import embedded
from nsq_anyio.embedded import NsqdOptions
from tests.embedded.raw_client import RawMessage, dpub, identify, mpub, pub, raw_client, until

pytestmark = pytest.mark.anyio

QUICK = NsqdOptions(msg_timeout=0.15)
PATIENT = NsqdOptions(msg_timeout=10.0)


async def test_a_message_has_id_timestamp_and_attempts() -> None:
    async with embedded.nsqd() as nsqd, raw_client(nsqd.tcp_address) as client:
        before = time.time_ns()
        await client.publish("t", b"body")
        after = time.time_ns()
        await client.subscribe("t", "c", rdy=1)
        message = await client.message()
        assert message.body == b"body"
        assert message.attempts == 1
        assert before <= message.timestamp <= after
        assert len(message.id) == 16
        int(message.id, 16)


async def test_ids_are_unique_and_grow() -> None:
    async with embedded.nsqd() as nsqd, raw_client(nsqd.tcp_address) as client:
        assert await client.ask(mpub("t", *[b"x"] * 10_000)) == b"OK"
        await client.subscribe("t", "c", rdy=2500)
        ids: list[bytes] = []
        while len(ids) < 10_000:
            message = await client.message()
            ids.append(message.id)
            await client.fin(message)
        assert ids == sorted(set(ids))


async def test_messages_wait_in_the_topic_for_its_first_channel() -> None:
    async with embedded.nsqd() as nsqd, raw_client(nsqd.tcp_address) as client:
        await client.publish("t", b"one", b"two")
        assert nsqd.topics["t"].depth == 2
        await client.subscribe("t", "c")
        assert nsqd.topics["t"].depth == 0
        assert nsqd.topics["t"].channels["c"].depth == 2


async def test_every_channel_gets_a_copy() -> None:
    async with (
        embedded.nsqd() as nsqd,
        raw_client(nsqd.tcp_address) as first,
        raw_client(nsqd.tcp_address) as second,
        raw_client(nsqd.tcp_address) as producer,
    ):
        await first.subscribe("t", "a", rdy=5)
        await second.subscribe("t", "b", rdy=5)
        await producer.publish("t", b"one", b"two")
        received = [await client.messages(2) for client in (first, second)]
        assert received[0] == received[1]
        assert [message.body for message in received[0]] == [b"one", b"two"]
        # The copies are answered independently.
        await first.fin(received[0][0])
        await first.settle()
        assert len(nsqd.topics["t"].channels["a"].in_flight) == 1
        assert len(nsqd.topics["t"].channels["b"].in_flight) == 2


async def test_at_most_rdy_messages_are_unanswered() -> None:
    async with embedded.nsqd(options=PATIENT) as nsqd, raw_client(nsqd.tcp_address) as client:
        await client.publish("t", *[b"%d" % i for i in range(6)])
        await client.subscribe("t", "c")
        assert await client.silent(0.05)
        await client.rdy(2)
        first, second = await client.messages(2)
        assert await client.silent(0.05)
        # RDY is no credit: it stands, and each answer lets one more come.
        await client.fin(first)
        third = await client.message()
        assert await client.silent(0.05)
        await client.rdy(3)
        fourth = await client.message()
        await client.rdy(1)
        await client.fin(second)
        await client.fin(third)
        assert await client.silent(0.05)
        await client.fin(fourth)
        assert (await client.message()).body == b"4"


async def test_clients_of_a_channel_take_turns() -> None:
    async with (
        embedded.nsqd() as nsqd,
        raw_client(nsqd.tcp_address) as first,
        raw_client(nsqd.tcp_address) as second,
        raw_client(nsqd.tcp_address) as producer,
    ):
        await first.subscribe("t", "c", rdy=100)
        await second.subscribe("t", "c", rdy=100)
        await first.settle()
        await second.settle()
        assert await producer.ask(mpub("t", *[b"%d" % i for i in range(10)])) == b"OK"
        shares = [{message.body for message in await client.messages(5)} for client in (first, second)]
        assert shares[0] | shares[1] == {b"%d" % i for i in range(10)}
        assert await first.silent(0.03)
        assert await second.silent(0.03)


async def test_a_client_at_its_limit_leaves_the_rest_to_others() -> None:
    async with (
        embedded.nsqd() as nsqd,
        raw_client(nsqd.tcp_address) as first,
        raw_client(nsqd.tcp_address) as second,
        raw_client(nsqd.tcp_address) as producer,
    ):
        await first.subscribe("t", "c", rdy=2)
        await second.subscribe("t", "c", rdy=100)
        await first.settle()
        await second.settle()
        assert await producer.ask(mpub("t", *[b"x"] * 10)) == b"OK"
        await first.messages(2)
        await second.messages(8)
        assert await first.silent(0.03)


async def test_unanswered_messages_come_again() -> None:
    async with embedded.nsqd(options=QUICK) as nsqd, raw_client(nsqd.tcp_address) as client:
        await client.publish("t", b"x")
        await client.subscribe("t", "c", rdy=1)
        first = await client.message()
        start = anyio.current_time()
        second = await client.message()
        assert 0.1 < anyio.current_time() - start < 1
        assert (second.id, second.timestamp, second.attempts) == (first.id, first.timestamp, 2)
        channel = nsqd.topics["t"].channels["c"]
        assert (channel.timeout_count, len(channel.in_flight), channel.depth) == (1, 1, 0)


async def test_an_answer_after_the_timeout_fails() -> None:
    async with embedded.nsqd(options=QUICK) as nsqd, raw_client(nsqd.tcp_address) as client:
        await client.publish("t", b"x")
        await client.subscribe("t", "c", rdy=1)
        message = await client.message()
        await client.rdy(0)
        await until(lambda: not nsqd.topics["t"].channels["c"].in_flight)
        for command in ("FIN %s", "REQ %s 0", "TOUCH %s"):
            await client.send((command % message.id.decode()).encode() + b"\n")
            name = command.split(maxsplit=1)[0]
            expected = f"E_{name}_FAILED {name} {message.id.decode()} failed ID not in flight"
            assert (await client.error()).decode() == expected
        # None of them ended the connection.
        await client.rdy(1)
        assert (await client.message()).attempts == 2


async def test_another_clients_message_cannot_be_answered() -> None:
    async with (
        embedded.nsqd() as nsqd,
        raw_client(nsqd.tcp_address) as owner,
        raw_client(nsqd.tcp_address) as other,
    ):
        await owner.publish("t", b"x")
        await owner.subscribe("t", "c", rdy=1)
        await other.subscribe("t", "c")
        message = await owner.message()
        await other.fin(message)
        assert (await other.error()).endswith(b"failed client does not own message")
        await other.req(message, 0)
        assert (await other.error()).startswith(b"E_REQ_FAILED")
        await other.touch(message)
        assert (await other.error()).startswith(b"E_TOUCH_FAILED")
        assert len(nsqd.topics["t"].channels["c"].in_flight) == 1


async def test_fin_discards() -> None:
    async with embedded.nsqd(options=QUICK) as nsqd, raw_client(nsqd.tcp_address) as client:
        await client.publish("t", b"x")
        await client.subscribe("t", "c", rdy=1)
        await client.fin(await client.message())
        assert await client.silent(0.3)
        channel = nsqd.topics["t"].channels["c"]
        assert (channel.depth, len(channel.in_flight), channel.timeout_count) == (0, 0, 0)


async def test_the_client_sets_its_msg_timeout() -> None:
    async with (
        embedded.nsqd(options=NsqdOptions(msg_timeout=0.1)) as nsqd,
        raw_client(nsqd.tcp_address) as client,
    ):
        assert await client.ask(identify('{"msg_timeout":1000}')) == b"OK"
        await client.publish("t", b"x")
        await client.subscribe("t", "c", rdy=1)
        await client.message()
        assert await client.silent(0.3)


async def test_touch_starts_the_timeout_anew() -> None:
    options = NsqdOptions(msg_timeout=0.3)
    async with embedded.nsqd(options=options) as nsqd, raw_client(nsqd.tcp_address) as client:
        await client.publish("t", b"x")
        await client.subscribe("t", "c", rdy=1)
        message = await client.message()
        start = anyio.current_time()
        assert await client.silent(0.1)
        await client.touch(message)
        assert (await client.message()).attempts == 2
        assert anyio.current_time() - start > 0.35


async def test_req_at_once_and_later() -> None:
    async with embedded.nsqd() as nsqd, raw_client(nsqd.tcp_address) as client:
        await client.publish("t", b"x")
        await client.subscribe("t", "c", rdy=1)
        first = await client.message()
        await client.req(first, 0)
        second = await client.message()
        assert (second.id, second.attempts) == (first.id, 2)
        await client.req(second, 300)
        start = anyio.current_time()
        await client.settle()
        channel = nsqd.topics["t"].channels["c"]
        assert (len(channel.deferred), channel.depth, len(channel.in_flight)) == (1, 0, 0)
        assert (await client.message()).attempts == 3
        assert anyio.current_time() - start > 0.25
        assert (channel.requeue_count, len(channel.deferred)) == (2, 0)


async def test_a_long_req_is_shortened() -> None:
    async with (
        embedded.nsqd(options=NsqdOptions(max_req_timeout=0.1)) as nsqd,
        raw_client(nsqd.tcp_address) as client,
    ):
        await client.publish("t", b"x")
        await client.subscribe("t", "c", rdy=1)
        await client.req(await client.message(), 3_600_000)
        assert (await client.message()).attempts == 2


async def test_dpub_defers() -> None:
    async with embedded.nsqd() as nsqd, raw_client(nsqd.tcp_address) as client:
        await client.subscribe("t", "c", rdy=2)
        start = anyio.current_time()
        assert await client.ask(dpub("t", 300, b"later")) == b"OK"
        assert await client.ask(dpub("t", 0, b"now")) == b"OK"
        assert (await client.message()).body == b"now"
        assert len(nsqd.topics["t"].channels["c"].deferred) == 1
        message = await client.message()
        assert (message.body, message.attempts) == (b"later", 1)
        assert anyio.current_time() - start > 0.25


async def test_cls_stops_messages_and_takes_answers() -> None:
    async with embedded.nsqd(options=PATIENT) as nsqd, raw_client(nsqd.tcp_address) as client:
        await client.publish("t", b"one", b"two", b"three")
        await client.subscribe("t", "c", rdy=2)
        first, second = await client.messages(2)
        assert await client.ask(b"CLS\n") == b"CLOSE_WAIT"
        await client.fin(first)
        await client.req(second, 0)
        await client.rdy(5)
        assert await client.silent(0.05)
        channel = nsqd.topics["t"].channels["c"]
        assert (channel.depth, len(channel.in_flight)) == (2, 0)


async def test_messages_of_a_client_that_left_time_out() -> None:
    options = NsqdOptions(msg_timeout=0.4)
    async with embedded.nsqd(options=options) as nsqd, raw_client(nsqd.tcp_address) as other:
        async with raw_client(nsqd.tcp_address) as leaver:
            await leaver.publish("t", b"x")
            await leaver.subscribe("t", "c", rdy=1)
            message = await leaver.message()
        start = anyio.current_time()
        await other.subscribe("t", "c", rdy=1)
        assert await other.silent(0.05)
        again = await other.message()
        assert (again.id, again.attempts) == (message.id, 2)
        assert anyio.current_time() - start > 0.05


async def test_sampling_discards() -> None:
    async with embedded.nsqd() as nsqd, raw_client(nsqd.tcp_address) as client:
        assert await client.ask(identify('{"sample_rate":30}')) == b"OK"
        assert await client.ask(mpub("t", *[b"x"] * 2000)) == b"OK"
        await client.subscribe("t", "c", rdy=2500)
        await until(lambda: not nsqd.topics["t"].channels["c"].depth)
        # 31 of the hundred equally likely numbers pass; the bounds are six standard deviations away.
        assert 495 < len(nsqd.topics["t"].channels["c"].in_flight) < 745


async def test_attempts_wrap_around_as_16_bits() -> None:
    async with embedded.nsqd() as nsqd, raw_client(nsqd.tcp_address) as client:
        await client.publish("t", b"x")
        await client.subscribe("t", "c")
        nsqd.topics["t"].channels["c"].queue[0].attempts = 0xFFFF
        await client.rdy(1)
        assert (await client.message()).attempts == 0


async def test_requeued_messages_go_to_the_end() -> None:
    async with embedded.nsqd() as nsqd, raw_client(nsqd.tcp_address) as client:
        await client.publish("t", b"one", b"two", b"three")
        await client.subscribe("t", "c", rdy=1)
        await client.req(await client.message(), 0)
        order: list[RawMessage] = []
        for _ in range(3):
            order.append(await client.message())
            await client.fin(order[-1])
        assert [message.body for message in order] == [b"two", b"three", b"one"]


async def test_many_commands_in_one_chunk() -> None:
    async with embedded.nsqd() as nsqd, raw_client(nsqd.tcp_address) as client:
        await client.send(b"SUB t c\nRDY 100\n" + b"".join(pub("t", b"%d" % i) for i in range(100)))
        frames = Counter([(await client.frame())[0] for _ in range(201)])
        assert frames == {0: 101, 2: 100}
