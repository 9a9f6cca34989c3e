"""A block that another task leaves than has entered it, as when an async generator around it is abandoned.

Each test runs an event loop of its own: the scopes of the task that has entered the block stay out of order.
"""

import asyncio
import gc
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio import monitoring
from nsq_anyio.tasks import Background

from ..conftest import BACKENDS
from ..fake_nsqd import LIMIT, FakeConnection, client_tasks, fake_nsqd, serve, until

on_each_loop = pytest.mark.parametrize("loop", BACKENDS.values(), ids=list(BACKENDS))
asyncio_alone = pytest.mark.parametrize("use_uvloop", [False, True])


def run(main: Callable[[Callable[[], None]], Awaitable[None]], loop: tuple[str, dict[str, bool]]) -> None:
    """Run ``main`` until it has called what it is given.

    After that the event loop may say that the scopes of a task were left out of order, as they were.
    """
    reached: list[bool] = []

    async def in_time() -> None:
        with anyio.fail_after(10):
            await main(lambda: reached.append(True))

    try:
        anyio.run(in_time, backend=loop[0], backend_options=loop[1])
    except BaseException:
        if not reached:
            raise
    assert reached


@on_each_loop
def test_the_tasks_end_and_the_error_names_the_remedy(loop: tuple[str, dict[str, bool]]) -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append("tasks")

    async def shutdown(cancelled: bool) -> None:
        assert not cancelled
        await anyio.sleep(0.01)
        ended.append("shutdown")

    async def generate() -> AsyncGenerator[None]:
        async with Background(work, shutdown).around_block():
            await anyio.wait_all_tasks_blocked()
            yield

    async def main(reached: Callable[[], None]) -> None:
        generator = generate()
        await anext(generator)

        async def close() -> None:
            with pytest.raises(RuntimeError, match=r"contextlib\.aclosing"):
                await generator.aclose()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(close)
        assert ended == ["shutdown", "tasks"]
        assert client_tasks() == []
        reached()

    run(main, loop)


@on_each_loop
@pytest.mark.filterwarnings("ignore:Async generator .* was garbage collected:ResourceWarning")
def test_an_abandoned_generator_hands_its_messages_back(loop: tuple[str, dict[str, bool]]) -> None:
    peers: list[FakeConnection] = []

    async def keep(peer: FakeConnection) -> None:
        peers.append(peer)
        peer.backlog.extend([b"a", b"b", b"c"])
        await serve(peer)

    async def messages(address: str) -> AsyncGenerator[nsq.Message]:
        async with nsq.consume("t", "c", nsqd=address, max_in_flight=3) as consumer:
            async for message in consumer:
                yield message

    async def abandon(address: str, reached: Callable[[], None]) -> None:
        async for message in messages(address):
            assert message.body == b"a"
            break
        gc.collect()
        await until(peers[0].ended.is_set)
        assert peers[0].in_flight == set()
        await until(lambda: client_tasks() == [])
        reached()

    async def main(reached: Callable[[], None]) -> None:
        async with fake_nsqd(keep) as nsqd, anyio.create_task_group() as tasks:
            tasks.start_soon(abandon, nsqd.address, reached)

    run(main, loop)


async def nsqd_in_a_generator(_message: nsq.Message) -> AsyncGenerator[None]:
    async with nsq.embedded.nsqd() as server:
        servers.append(server.tcp_address)
        yield


async def nsqlookupd_in_a_generator(_message: nsq.Message) -> AsyncGenerator[None]:
    async with nsq.embedded.nsqlookupd() as server:
        servers.append(server.tcp_address)
        yield


servers: list[str] = []


async def is_refused(address: str) -> bool:
    try:
        stream = await anyio.connect_tcp("127.0.0.1", int(address.rpartition(":")[2]))
    except OSError:
        return True
    await anyio.aclose_forcefully(stream)
    return False


@on_each_loop
@pytest.mark.filterwarnings("ignore:Async generator .* was garbage collected:ResourceWarning")
@pytest.mark.parametrize("by_the_collector", [True, False])
@pytest.mark.parametrize("generate", [nsqd_in_a_generator, nsqlookupd_in_a_generator])
def test_the_other_blocks(
    loop: tuple[str, dict[str, bool]],
    generate: Callable[[nsq.Message], AsyncGenerator[None]],
    by_the_collector: bool,
) -> None:
    """Their tasks end, and nothing listens any more."""

    async def keep(peer: FakeConnection) -> None:
        peer.backlog.append(b"a")
        await serve(peer)

    async def close(generator: AsyncGenerator[None]) -> None:
        with pytest.raises(RuntimeError, match=r"contextlib\.aclosing"):
            await generator.aclose()

    async def abandon(message: nsq.Message, reached: Callable[[], None]) -> None:
        await anyio.wait_all_tasks_blocked()
        before = len(client_tasks())
        generator = generate(message)
        await anext(generator)
        assert len(client_tasks()) > before
        if by_the_collector:
            del generator
            gc.collect()
        else:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(close, generator)
        await until(lambda: len(client_tasks()) == before)
        with anyio.fail_after(LIMIT):
            for address in servers:
                while not await is_refused(address):  # noqa: ASYNC110 - nothing tells of it
                    await anyio.sleep(0.01)
        servers.clear()
        reached()

    async def main(reached: Callable[[], None]) -> None:
        async with (
            fake_nsqd(keep) as nsqd,
            nsq.consume("t", "c", nsqd=nsqd.address) as consumer,
            anyio.create_task_group() as tasks,
        ):
            tasks.start_soon(abandon, await anext(consumer), reached)

    run(main, loop)


@asynccontextmanager
async def middleware(_handling: nsq.Handling) -> AsyncGenerator[None]:
    yield


async def kept_alive(consumer: nsq.Consumer) -> AsyncGenerator[None]:
    async for message in consumer:
        async with message.keep_alive():
            yield


async def in_blocks(consumer: nsq.Consumer) -> AsyncGenerator[None]:
    async for message in consumer:
        async with message:
            yield


async def in_blocks_of_batches(consumer: nsq.Consumer) -> AsyncGenerator[None]:
    async for batch in consumer.batches(1):
        async with batch:
            yield


@on_each_loop
@pytest.mark.filterwarnings("ignore:Async generator .* was garbage collected:ResourceWarning")
@pytest.mark.parametrize("way", ["closed elsewhere", "collected", "kept"])
@pytest.mark.parametrize("generate", [kept_alive, in_blocks, in_blocks_of_batches])
def test_blocks_of_messages_leave_no_scope_behind(
    loop: tuple[str, dict[str, bool]], generate: Callable[[nsq.Consumer], AsyncGenerator[None]], way: str
) -> None:
    """A generator that is left by ``break`` costs its caller nothing, whoever closes it and when."""
    kept: list[AsyncGenerator[None]] = []
    peers: list[FakeConnection] = []

    async def keep(peer: FakeConnection) -> None:
        peers.append(peer)
        peer.backlog.extend([b"a", b"b"])
        await serve(peer)

    async def abandon(consumer: nsq.Consumer) -> None:
        generator = generate(consumer)
        async for _ in generator:
            break
        if way == "closed elsewhere":
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(generator.aclose)
        elif way == "kept":
            kept.append(generator)

    async def main() -> None:
        async with (
            fake_nsqd(keep) as nsqd,
            nsq.consume("t", "c", nsqd=nsqd.address, max_in_flight=2, middleware=[middleware]) as consumer,
        ):
            with anyio.fail_after(LIMIT):
                await abandon(consumer)
                gc.collect()
                await anyio.wait_all_tasks_blocked()
                with anyio.move_on_after(0.01) as scope:
                    await anyio.sleep_forever()
                assert scope.cancelled_caught
                (await anext(consumer)).finish()
        assert peers[0].in_flight == set()
        if kept:
            await kept.pop().aclose()

    anyio.run(main, backend=loop[0], backend_options=loop[1])


@asyncio_alone
def test_once_the_task_that_entered_it_has_ended_any_task_leaves_it(use_uvloop: bool) -> None:
    """As a fixture of pytest-asyncio does, whose two halves are tasks of their own."""
    peers: list[FakeConnection] = []

    async def keep(peer: FakeConnection) -> None:
        peers.append(peer)
        peer.backlog.extend([b"a", b"b"])
        await serve(peer)

    async def main() -> None:
        async with fake_nsqd(keep) as nsqd:
            before = len(client_tasks())
            block = nsq.consume("t", "c", nsqd=nsqd.address, max_in_flight=2)
            consumer = await asyncio.create_task(block.__aenter__())
            message = await anext(consumer)
            await until(lambda: len(peers[0].in_flight) == 2)
            with anyio.fail_after(LIMIT):
                await asyncio.create_task(block.__aexit__(None, None, None))
            assert message.responded
            assert peers[0].in_flight == set()
            assert len(client_tasks()) == before
            with pytest.raises(nsq.Closed):
                await anext(consumer)

    anyio.run(main, backend_options={"use_uvloop": use_uvloop})


@asyncio_alone
def test_what_fails_in_such_a_block_ends_what_its_users_wait_for(use_uvloop: bool) -> None:
    async def refuse(peer: FakeConnection) -> None:
        await peer.introduction()
        await peer.error(b"E_BAD_BODY no")
        await peer.close()

    async def main() -> None:
        async with fake_nsqd(refuse) as nsqd:
            consuming, producing = nsq.consume("t", "c", nsqd=nsqd.address), nsq.produce(nsqd.address)
            consumer = await asyncio.create_task(consuming.__aenter__())
            producer = await asyncio.create_task(producing.__aenter__())
            with anyio.fail_after(LIMIT):
                with pytest.raises(StopAsyncIteration):
                    await anext(consumer)
                with pytest.raises(nsq.NotSent):
                    await producer.publish("t", b"x")
                for block in (consuming, producing):
                    with pytest.raises(nsq.PermanentRefusal):
                        await asyncio.create_task(block.__aexit__(None, None, None))
            assert client_tasks() == []

    anyio.run(main, backend_options={"use_uvloop": use_uvloop})


@asyncio_alone
@pytest.mark.parametrize("of_shutdown", [None, KeyError("shutdown")], ids=repr)
def test_no_error_of_such_a_block_is_lost(use_uvloop: bool, of_shutdown: Exception | None) -> None:
    fails, shutdowns = asyncio.Event(), list[bool]()

    async def work() -> None:
        await fails.wait()
        raise ValueError("tasks")

    async def shutdown(cancelled: bool) -> None:
        shutdowns.append(cancelled)
        await anyio.sleep(0.01)
        if of_shutdown is not None:
            raise of_shutdown

    async def main() -> None:
        block = Background(work, shutdown).around_block()
        await asyncio.create_task(block.__aenter__())
        fails.set()
        await until(lambda: shutdowns)
        with pytest.raises((ValueError, KeyError)) as caught:
            await asyncio.create_task(block.__aexit__(None, None, None))
        assert str(caught.value) == ("tasks" if of_shutdown is None else "'shutdown'")
        assert shutdowns == [True]
        assert client_tasks() == []

    anyio.run(main, backend_options={"use_uvloop": use_uvloop})


@asyncio_alone
@pytest.mark.parametrize("is_failing", [False, True])
def test_a_cancellation_cuts_the_shutdown_of_such_a_block_short(use_uvloop: bool, is_failing: bool) -> None:
    shutdowns: list[bool] = []

    async def shutdown(cancelled: bool) -> None:
        shutdowns.append(cancelled)
        await anyio.sleep_forever()

    async def main() -> None:
        background = Background(anyio.sleep_forever, shutdown)
        block = background.around_block()
        await asyncio.create_task(block.__aenter__())
        if is_failing:
            background.fail(ValueError("tasks"))
        leaving = asyncio.create_task(block.__aexit__(None, None, None))
        await until(lambda: shutdowns)
        leaving.cancel()
        with anyio.fail_after(LIMIT), pytest.raises(asyncio.CancelledError):
            await leaving
        await until(lambda: client_tasks() == [])
        assert shutdowns == [is_failing]

    anyio.run(main, backend_options={"use_uvloop": use_uvloop})


@asyncio_alone
def test_the_servers_and_the_dashboards_poller_are_left_so_too(use_uvloop: bool) -> None:
    async def main() -> None:
        nsqd, nsqlookupd = nsq.embedded.nsqd(), nsq.embedded.nsqlookupd()
        server = await asyncio.create_task(nsqd.__aenter__())
        await asyncio.create_task(nsqlookupd.__aenter__())
        async with nsq.http.Cluster(nsqd=server.http_url) as cluster:
            poller = monitoring.Poller(cluster)
            await asyncio.create_task(poller.__aenter__())
            for block in (poller, nsqlookupd, nsqd):
                await asyncio.create_task(block.__aexit__(None, None, None))
        assert client_tasks() == []

    anyio.run(main, backend_options={"use_uvloop": use_uvloop})
