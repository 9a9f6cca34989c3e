"""A block that another task leaves than has entered it, as when an async generator around it is abandoned.

Each test runs an event loop of its own: the scopes of the task that has entered the block stay out of order.
"""

import gc
from collections.abc import AsyncGenerator, Awaitable, Callable

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.connection.background import Background

from ..conftest import BACKENDS
from ..fake_nsqd import FakeConnection, client_tasks, fake_nsqd, serve, until

on_each_loop = pytest.mark.parametrize("loop", BACKENDS.values(), ids=list(BACKENDS))


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
