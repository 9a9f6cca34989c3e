"""Busy polling leaves the other tasks of the loop their turns; `tests.benchmarks.fairness` measures it."""

import pytest

from ..benchmarks.fairness import OTHERS, filled, measure
from ..benchmarks.nsqds import Nsqds
from ..real_servers import real_nsqd

pytestmark = pytest.mark.anyio

SECONDS = 0.3
BUSY_POLL = 50e-6


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> object:
    return request.param


@pytest.mark.parametrize(("work", "others"), [("consume", 0), ("consume", OTHERS), ("publish", OTHERS)])
async def test_other_tasks_keep_their_turns(work: str, others: int) -> None:
    turns: dict[float, list[float]] = {0.0: [], BUSY_POLL: []}
    async with real_nsqd(flags=["--mem-queue-size=1000000"]) as nsqd:
        for _ in range(2):  # a loaded machine may take the turns of either
            for busy_poll, found in turns.items():
                topic = filled(Nsqds([nsqd]), work, SECONDS)
                measured = await measure(
                    nsqd.tcp_address, topic, work=work, others=others, busy_poll=busy_poll, seconds=SECONDS
                )
                found.append(measured.turns)
    # Polls that follow each other for milliseconds take nine turns in ten.
    assert max(turns[BUSY_POLL]) >= 0.5 * min(turns[0.0])
