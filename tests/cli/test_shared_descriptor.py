"""Waiting for descriptors that other processes have too."""

import os
from collections.abc import Generator
from contextlib import suppress

import anyio
import pytest

from nsq_anyio.cli.output import wait_readable

pytestmark = pytest.mark.anyio


@pytest.fixture
def pipe() -> Generator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    for end in (reader, writer):
        with suppress(OSError):  # the test has closed it
            os.close(end)


async def test_it_waits_for_bytes_and_leaves_both_ends_blocking(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait_readable, reader)
            await anyio.wait_all_tasks_blocked()
            assert os.get_blocking(reader)
            os.write(writer, b"x")
    assert os.get_blocking(reader)
    assert os.read(reader, 10) == b"x"


async def test_the_end_for_writing_becomes_readable_when_the_reader_goes_away(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait_readable, writer)
            await anyio.wait_all_tasks_blocked()
            assert os.get_blocking(writer)
            os.close(reader)


async def test_a_cancelled_wait_leaves_the_descriptor_as_it_was(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    for _ in range(3):
        with anyio.move_on_after(0.01):
            await wait_readable(reader)
    assert os.get_blocking(reader)
    os.write(writer, b"x")
    with anyio.fail_after(10):
        await wait_readable(reader)
