"""A consumer that deduplicates: which copies are handled, and what becomes of the others."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.dead_letters import ChannelScan, Filter, LetterProcessor
from nsq_anyio.deduplication import Claim, Claimed, MemoryStore, Store
from nsq_anyio.embedded import EmbeddedNsqd, NsqdOptions
from nsq_anyio.envelope import encode
from nsq_anyio.events import BackoffStarted, DeduplicationFailed, Event, HandlerFailed, MessageRequeued

from ..fake_nsqd import Events, until
from ..processes import ending
from ..sync.conftest import running_nsqd
from .conftest import MakeStore

pytestmark = pytest.mark.anyio

QUICK = nsq.ConsumerOptions(requeue_delay=0.1, max_backoff_duration=0, rdy_redistribute_interval=0.01)


@asynccontextmanager
async def two_nsqds(**options: float) -> AsyncGenerator[list[str]]:
    """Two nsqds, each with the channel c of the topic t."""
    async with AsyncExitStack() as stack:
        servers: list[EmbeddedNsqd] = []
        for _ in range(2):
            server = await stack.enter_async_context(nsq.embedded.nsqd(options=NsqdOptions(**options)))  # type: ignore[arg-type]
            servers.append(server)
            async with nsq.http.Nsqd(server.http_url) as client:
                await client.create_topic("t")
                await client.create_channel("t", "c")
        yield [server.tcp_address for server in servers]


async def publish(nsqds: list[str], *bodies: bytes, copies: int = 2) -> None:
    async with nsq.produce(nsqds, copies=copies) as producer:
        for body in bodies:
            await producer.publish("t", body)


@asynccontextmanager
async def handling(
    nsqds: list[str],
    handler: Callable[[nsq.Message], Awaitable[object]],
    store: Store,
    *,
    timeout: float = 5.0,
    on_event: Callable[[Event], None] | None = None,
    on_give_up: Callable[[nsq.Message], object] | None = None,
    options: nsq.ConsumerOptions = QUICK,
    connection: nsq.ConnectionOptions | None = None,
) -> AsyncGenerator[nsq.Consumer]:
    async with (
        nsq.consume(
            "t",
            "c",
            nsqd=nsqds,
            deduplicate=nsq.Deduplicate(store, timeout=timeout),
            on_event=on_event,
            on_give_up=on_give_up,
            options=options,
            connection=connection,
        ) as consumer,
        anyio.create_task_group() as tasks,
    ):

        async def run() -> None:
            await consumer.run(handler, concurrency=4)

        tasks.start_soon(run)
        yield consumer
        consumer.stop()


class Handled(list[bytes]):
    """A handler that notes what it handles."""

    def __init__(self, seconds: float = 0.0) -> None:
        super().__init__()
        self.seconds = seconds

    async def __call__(self, message: nsq.Message) -> None:
        self.append(message.payload)
        await anyio.sleep(self.seconds)


async def test_each_message_is_handled_once(make_store: MakeStore) -> None:
    handled, store = Handled(), make_store(60)
    bodies = [b"%d" % number for number in range(20)]
    async with two_nsqds() as nsqds:
        await publish(nsqds, *bodies)
        async with handling(nsqds, handled, store) as first, handling(nsqds, handled, store) as second:
            await until(lambda: first.statistics().finished + second.statistics().finished == 40)
    assert sorted(handled) == sorted(bodies)


async def test_iteration_and_batches_hand_out_one_copy() -> None:
    store = MemoryStore()
    async with two_nsqds() as nsqds:
        await publish(nsqds, b"one")
        consume = nsq.consume(
            "t", "c", nsqd=nsqds, max_in_flight=10, options=QUICK, deduplicate=nsq.Deduplicate(store)
        )
        async with consume as consumer:
            async for message in consumer:
                message.finish()
                break
            with anyio.move_on_after(0.2):
                await anext(consumer)
                pytest.fail("the copy was handed out")
            await publish(nsqds, b"two", b"three")
            got: list[bytes] = []
            async for batch in consumer.batches(10, 0.1):
                async with batch:
                    got += [each.payload for each in batch]
                if len(got) >= 2:
                    break
            await until(lambda: consumer.statistics().finished == 6)
    assert sorted(got) == [b"three", b"two"]


def test_plain_functions(tmp_path_factory: pytest.TempPathFactory) -> None:
    handled: list[bytes] = []
    with running_nsqd() as one, running_nsqd() as two:
        nsqds = [one.tcp_address, two.tcp_address]
        store = nsq.deduplication.SQLiteStore(tmp_path_factory.mktemp("ids") / "ids.db")
        with nsq.sync.produce(nsqds, copies=2) as producer:
            producer.publish("t", b"body")
        deduplicate = nsq.Deduplicate(store)
        with nsq.sync.consume("t", "c", nsqd=nsqds, max_in_flight=4, deduplicate=deduplicate) as consumer:
            for message in consumer:
                with message:
                    handled.append(message.payload)
                break
            assert consumer.take(0.3) is None
    assert handled == [b"body"]


async def test_messages_without_an_id_are_handled_as_always() -> None:
    handled = Handled()
    async with two_nsqds() as nsqds, nsq.produce(nsqds[0]) as producer:
        damaged = encode(b"payload", {"nsq-id": "x"})[:12]
        await producer.publish_many("t", [b"same", b"same", encode(b"p", {"a": "b"}), damaged])
        await producer.publish("t", b"no name", headers={"nsq-id": ""})

        async def handle(message: nsq.Message) -> None:
            handled.append(message.body)

        async with handling(nsqds, handle, MemoryStore()) as consumer:
            await until(lambda: consumer.statistics().finished == 5)
    assert len(handled) == 5


async def test_a_long_id_is_as_good_as_a_short_one() -> None:
    handled = Handled()
    async with two_nsqds() as nsqds, nsq.produce(nsqds, copies=2) as producer:
        for last in ("a", "b"):
            await producer.publish("t", last, headers={"NSQ-Id": "x" * 10_000 + last})
        async with handling(nsqds, handled, MemoryStore()) as consumer:
            await until(lambda: consumer.statistics().finished == 4)
    assert sorted(handled) == [b"a", b"b"]


async def test_channels_do_not_share_ids() -> None:
    store, handled = MemoryStore(), Handled()
    async with two_nsqds() as nsqds:
        await publish(nsqds, b"body", copies=2)
        async with handling(nsqds, handled, store) as consumer:
            await until(lambda: consumer.statistics().finished == 2)
        other = nsq.consume("t", "other", nsqd=nsqds, deduplicate=nsq.Deduplicate(store))
        async with other as consumer:
            await publish(nsqds, b"next", copies=2)
            async for message in consumer:
                message.finish()
                assert message.payload == b"next"
                break


async def test_a_copy_waits_while_another_is_handled_and_does_not_count_as_failed() -> None:
    events = Events()
    ended = anyio.Event()

    async def handle(message: nsq.Message) -> None:
        handled.append(message.payload)
        await ended.wait()

    handled = Handled()
    async with two_nsqds() as nsqds:
        await publish(nsqds, b"body")
        async with handling(nsqds, handle, MemoryStore(), on_event=events) as consumer:
            await until(lambda: len(events.of(MessageRequeued)) == 1)
            assert events.of(MessageRequeued)[0].delay == 1.0
            assert consumer.in_flight == 1  # it does not take a place meanwhile
            ended.set()
            await until(lambda: consumer.statistics().finished == 2)
            assert consumer.statistics().failed == 0
    assert handled == [b"body"]
    assert events.of(BackoffStarted) == []
    assert events.of(HandlerFailed) == []


async def test_a_message_that_failed_comes_again_and_its_copy_waits_for_it() -> None:
    attempts: list[tuple[str, int]] = []

    async def handle(message: nsq.Message) -> None:
        attempts.append((message.nsqd, message.attempts))
        if len(attempts) < 3:
            raise ValueError

    async with two_nsqds() as nsqds:
        await publish(nsqds, b"body")
        async with handling(nsqds, handle, MemoryStore()) as consumer:
            await until(lambda: consumer.statistics().finished == 2)
    nsqd = attempts[0][0]
    assert [each for each, _ in attempts] == [nsqd, nsqd, nsqd]
    assert [count for _, count in attempts] == [1, 2, 3]


@pytest.mark.parametrize("how", ["given up", "discarded"])
async def test_a_copy_of_a_message_that_is_given_up_is_not_handled(how: str) -> None:
    given_up: list[bytes] = []
    handled = Handled()

    async def handle(message: nsq.Message) -> None:
        handled.append(message.payload)
        raise nsq.Discard if how == "discarded" else ValueError

    options = nsq.ConsumerOptions(max_attempts=1, max_backoff_duration=0, rdy_redistribute_interval=0.01)
    async with two_nsqds() as nsqds:
        await publish(nsqds, b"body")
        async with handling(
            nsqds,
            handle,
            MemoryStore(),
            options=options,
            on_give_up=lambda message: given_up.append(message.payload),
        ) as consumer:
            await until(lambda: consumer.statistics().finished == 2)
    assert handled == [b"body"]
    assert given_up == ([b"body"] if how == "given up" else [])


async def test_a_dead_letter_that_is_retried_is_handled_again() -> None:
    handled = Handled()
    store = MemoryStore()
    async with two_nsqds() as nsqds:
        await publish(nsqds, b"body")
        block = nsq.consume(
            *("t", "c"),
            nsqd=nsqds,
            dead_letter="{topic}.dead",
            options=QUICK,
            deduplicate=nsq.Deduplicate(store),
        )
        async with block as consumer:

            async def discard(message: nsq.Message) -> None:
                raise nsq.Discard(message.id)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(partial(consumer.run, discard, concurrency=4))
                await until(lambda: consumer.statistics().finished == 2)
                consumer.stop()
        scan = ChannelScan("t.dead", "retry", nsqd=nsqds, max_in_flight=4, wait=0.3)
        work = LetterProcessor(scan, Filter(), 0)
        await work.retry(anyio.Event())
        assert work.done == 1
        async with handling(nsqds, handled, store):
            await until(lambda: handled)
    assert handled == [b"body"]


async def test_touch_extends_the_claim() -> None:
    claims: list[float] = []

    class Noting(MemoryStore):
        async def claim(self, claim: Claim, seconds: float) -> Claimed:
            claims.append(seconds)
            return await super().claim(claim, seconds)

    async def handle(message: nsq.Message) -> None:
        await anyio.sleep(0.1)
        message.touch()

    async with two_nsqds(msg_timeout=1.0) as nsqds:
        await publish(nsqds[:1], b"body", copies=1)
        async with nsq.produce(nsqds[0]) as producer:
            await producer.publish("t", b"body", headers={"nsq-id": "1"})
        async with handling(nsqds, handle, Noting()) as consumer:
            await until(lambda: len(claims) == 2)
            await until(lambda: consumer.statistics().finished == 2)
    assert all(2.5 < seconds <= 3.0 for seconds in claims)


async def test_a_message_that_times_out_is_taken_over_when_its_claim_ends() -> None:
    started: list[str] = []

    async def handle(message: nsq.Message) -> None:
        started.append(message.id)
        if len(started) == 1:
            await anyio.sleep_forever()  # until the deadline cancels it

    async with two_nsqds(msg_timeout=0.2) as nsqds:
        await publish(nsqds, b"body")
        began = time.monotonic()
        async with handling(nsqds, handle, MemoryStore()) as consumer:
            await until(lambda: consumer.statistics().finished == 2)
    assert len(started) == 2
    assert time.monotonic() - began > 2.0  # the margin of a claim


async def test_the_end_of_a_consumer_hands_claims_back_at_once() -> None:
    store, handled = MemoryStore(), Handled()
    async with two_nsqds() as nsqds:
        await publish(nsqds, b"taken", b"waiting")
        deduplicate = nsq.Deduplicate(store)
        async with nsq.consume(
            "t", "c", nsqd=nsqds, max_in_flight=4, options=QUICK, deduplicate=deduplicate
        ) as one:
            await anext(one)
            await until(lambda: one.statistics().waiting == 1)
        async with handling(nsqds, handled, store) as consumer:
            await until(lambda: consumer.statistics().finished >= 2)
            assert sorted(handled) == [b"taken", b"waiting"]


class Failing(MemoryStore):
    """Fails, or never answers, while it is told to."""

    def __init__(self, *methods: str, hangs: bool = False) -> None:
        super().__init__()
        self.methods = set(methods)
        self.hangs = hangs

    async def _fail(self, method: str) -> None:
        if method in self.methods:
            if self.hangs:
                await anyio.sleep_forever()
            raise OSError("away")

    async def claim(self, claim: Claim, seconds: float) -> Claimed:
        await self._fail("claim")
        return await super().claim(claim, seconds)

    async def done(self, claim: Claim) -> None:
        await self._fail("done")
        await super().done(claim)

    async def release(self, claim: Claim, seconds: float) -> None:
        await self._fail("release")
        await super().release(claim, seconds)


@pytest.mark.parametrize("hangs", [False, True])
async def test_without_the_store_nothing_is_handled_or_lost(hangs: bool) -> None:
    events, handled, store = Events(), Handled(), Failing("claim", hangs=hangs)
    async with two_nsqds() as nsqds:
        await publish(nsqds, b"body")
        options = nsq.ConsumerOptions(
            requeue_delay=0.05, backoff_multiplier=0.02, max_attempts=1, rdy_redistribute_interval=0.01
        )
        async with handling(nsqds, handled, store, timeout=0.1, on_event=events, options=options) as consumer:
            await until(lambda: len(events.of(DeduplicationFailed)) >= 3)
            assert handled == []
            assert consumer.statistics().gave_up == 0
            assert events.of(BackoffStarted)
            store.methods.clear()
            await until(lambda: handled)
    assert handled == [b"body"]
    reason = "did not answer within 0.1 s" if hangs else "OSError('away')"
    assert reason in str(events.of(DeduplicationFailed)[0])
    assert "the store of ids failed" in events.of(MessageRequeued)[0].reason


@pytest.mark.parametrize("hangs", [False, True])
async def test_what_was_handled_is_finished_without_the_store(hangs: bool) -> None:
    events, handled, store = Events(), Handled(), Failing("done", hangs=hangs)
    async with two_nsqds() as nsqds, nsq.produce(nsqds[0]) as producer:
        await producer.publish("t", b"body", headers={"nsq-id": "1"})
        async with handling(nsqds, handled, store, timeout=0.1, on_event=events) as consumer:
            await until(lambda: consumer.statistics().finished == 1)
    assert handled == [b"body"]
    assert len(events.of(DeduplicationFailed)) == 1


@asynccontextmanager
async def consuming_until_it_waits(method: str, nsqds: list[str]) -> AsyncGenerator[None]:
    """A consumer whose store does not answer a method, which it calls in the block or at its end."""
    options = nsq.ConsumerOptions(close_timeout=0.5, cancelled_drain_timeout=0.1)
    deduplicate = nsq.Deduplicate(Failing(method, hangs=True), timeout=60)
    async with nsq.consume("t", "c", nsqd=nsqds, options=options, deduplicate=deduplicate) as consumer:
        if method == "claim":
            consumer.max_in_flight = 2
            await until(lambda: consumer.in_flight == 2)
        else:
            message = await anext(consumer)
            if method == "done":
                message.finish()
        yield


async def copies_left(nsqds: list[str]) -> int:
    """Take the copies that the nsqds have, and return how many there were."""
    left = 0
    for nsqd in nsqds:
        async with nsq.consume("t", "c", nsqd=nsqd, max_in_flight=2) as consumer:
            with anyio.move_on_after(0.5):
                async for message in consumer:
                    message.finish()
                    left += 1
    return left


@pytest.mark.parametrize("method", ["claim", "done", "release"])
async def test_a_block_ends_in_time_though_the_store_hangs(method: str) -> None:
    async with two_nsqds() as nsqds:
        await publish(nsqds, b"body")
        with anyio.fail_after(10):
            async with consuming_until_it_waits(method, nsqds):
                began = time.monotonic()
            assert time.monotonic() - began < 3
        # A message that was handled is finished all the same; the others are there.
        assert await copies_left(nsqds) == (1 if method == "done" else 2)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("pause", [0.0, 0.05])
@pytest.mark.parametrize("method", ["claim", "done", "release"])
async def test_a_block_that_is_cancelled_twice_ends_in_time_and_loses_nothing(
    method: str, pause: float
) -> None:
    async with two_nsqds() as nsqds:
        await publish(nsqds, b"body")
        is_there = asyncio.Event()

        async def consume() -> None:
            async with consuming_until_it_waits(method, nsqds):
                is_there.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(consume())
        async with asyncio.timeout(10):
            await is_there.wait()
            began = time.monotonic()
            task.cancel()
            await asyncio.sleep(pause)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert time.monotonic() - began < 3
        assert await copies_left(nsqds) == (1 if method == "done" else 2)


PROGRAM = """
import sys, anyio
import nsq_anyio as nsq

async def main():
    store = nsq.deduplication.SQLiteStore(sys.argv[1])
    nsqds = sys.argv[2:]
    async with nsq.consume("t", "c", nsqd=nsqds, deduplicate=nsq.Deduplicate(store)) as consumer:
        async for message in consumer:
            print("handling", flush=True)
            await anyio.sleep_forever()

anyio.run(main)
"""


async def test_a_process_that_is_killed_leaves_its_claim_until_it_runs_out(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = str(tmp_path_factory.mktemp("ids") / "ids.db")
    handled = Handled()
    async with two_nsqds(msg_timeout=1.0) as nsqds:
        await publish(nsqds, b"body")
        process = await anyio.open_process([sys.executable, "-c", PROGRAM, path, *nsqds], stderr=None)
        async with ending(process):
            assert process.stdout is not None
            assert (await process.stdout.receive()).startswith(b"handling")
            process.kill()
        killed = time.monotonic()
        store = nsq.deduplication.SQLiteStore(path)
        async with handling(nsqds, handled, store) as consumer:
            await until(lambda: consumer.statistics().finished == 2)
    assert handled == [b"body"]
    assert time.monotonic() - killed < 12


def test_what_is_no_store_is_refused() -> None:
    with pytest.raises(nsq.InvalidOption, match="it has no async `claim`: use a store of"):
        nsq.Deduplicate(object())  # type: ignore[arg-type]
    with pytest.raises(nsq.InvalidOption, match=r"timeout=0 is not valid: use 0\.001 or more \(seconds\)"):
        nsq.Deduplicate(MemoryStore(), timeout=0)
    with pytest.raises(nsq.InvalidOption, match=r"use nsq\.Deduplicate\(store\)"):
        nsq.consume("t", "c", nsqd="127.0.0.1:1", deduplicate=MemoryStore())  # type: ignore[arg-type]
