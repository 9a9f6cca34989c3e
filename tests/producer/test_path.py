"""The files that a publish crosses, from the call to the stream and back: docs/architecture.md lists them."""

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import anyio
import pytest

import nsq_anyio as nsq

from ..fake_nsqd import fake_nsqd, until
from .gate import Gate

pytestmark = pytest.mark.anyio

PACKAGE = Path(nsq.__file__).parent

PATH = {
    "producer/producer.py",
    "protocol/commands.py",
    "producer/publication.py",
    "producer/dispatcher.py",
    "producer/pool.py",
    "connection/connection.py",
    "protocol/session.py",
    "connection/writer.py",
    "protocol/frames.py",
}


@contextmanager
def files_crossed() -> Generator[set[str]]:
    """Note each file of the package in which a function runs, `transport/` left out."""
    files: set[str] = set()

    def note(frame: FrameType, event: str, arg: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(PACKAGE):
            files.add(path.relative_to(PACKAGE).as_posix())

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield files
    finally:
        sys.setprofile(before)
        files -= {file for file in files if file.startswith("transport/")}


@pytest.mark.parametrize("coalesce", [False, True])
async def test_a_publish_crosses_few_files(coalesce: bool) -> None:
    gate = Gate()
    files: set[str] = set()
    options = nsq.ProducerOptions(coalesce=coalesce)
    async with (
        fake_nsqd(gate.script) as nsqd,
        nsq.produce(nsqd.address, options=options) as producer,
        anyio.create_task_group() as tasks,
    ):
        for number in range(3):
            tasks.start_soon(producer.publish, "t", b"body")
            assert await gate.is_stuck_at(number + 1)
            await gate.answer()
            await anyio.wait_all_tasks_blocked()
        with files_crossed() as crossed:
            tasks.start_soon(producer.publish, "t", b"body")
            assert await gate.is_stuck_at(4)
            await gate.answer()
            await until(lambda: producer.statistics().published == 4)
            await anyio.wait_all_tasks_blocked()
        files = crossed - {"producer/statistics.py"}  # which this test asks
    own = PATH | {"producer/batch.py", "producer/bodies.py"} if coalesce else PATH
    assert files == own
