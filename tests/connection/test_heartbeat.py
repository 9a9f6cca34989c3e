"""Silence ends a connection, and only silence does."""

import time

import anyio
import anyio.lowlevel
import pytest

from nsq_anyio.connection.connection import watch_silence

pytestmark = pytest.mark.anyio

INTERVAL = 0.02


async def test_two_intervals_of_silence_are_reported_with_their_length() -> None:
    began = anyio.current_time()
    with anyio.fail_after(5):
        silence = await watch_silence(lambda: began, INTERVAL)
    assert 2 * INTERVAL < silence <= anyio.current_time() - began


async def test_one_missed_heartbeat_is_not_enough() -> None:
    began = anyio.current_time()
    with anyio.move_on_after(1.5 * INTERVAL):
        await watch_silence(lambda: began, INTERVAL)
        assert anyio.current_time() - began > 2 * INTERVAL


async def test_each_arrival_starts_the_time_anew() -> None:
    last_received = anyio.current_time()
    silence = 0.0

    async def receive() -> None:
        nonlocal last_received
        for _ in range(10):
            last_received = anyio.current_time()
            await anyio.sleep(INTERVAL / 2)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(receive)
        with anyio.fail_after(5):
            silence = await watch_silence(lambda: last_received, INTERVAL)
    assert silence > 2 * INTERVAL
    assert anyio.current_time() - last_received > 2 * INTERVAL


async def test_bytes_that_wait_while_the_event_loop_is_blocked_count() -> None:
    """A program that computes for long must not lose a healthy connection: the reader comes first."""
    last_received = anyio.current_time()

    async def block_then_read() -> None:
        nonlocal last_received
        await anyio.sleep(INTERVAL)
        time.sleep(4 * INTERVAL)  # noqa: ASYNC251 - the event loop stands still
        await anyio.lowlevel.checkpoint()  # the watcher, due by now, has its turn before the reader
        last_received = anyio.current_time()

    with anyio.move_on_after(6 * INTERVAL) as scope:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(block_then_read)
            await watch_silence(lambda: last_received, INTERVAL)
    assert scope.cancelled_caught
