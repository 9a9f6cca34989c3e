"""Where sockets are used directly, and where tasks go on in the callbacks of the loop."""

from __future__ import annotations

import asyncio
import sys

import pytest

from nsq_anyio.transport import event_loop
from nsq_anyio.transport.dial import dial
from nsq_anyio.transport.event_loop import SWITCH, continues_in_callbacks, waits_for_sockets
from nsq_anyio.transport.layer import TimedSends
from nsq_anyio.transport.socket_stream import DirectSocketStream

from ..fake_nsqd import fake_nsqd

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def without_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SWITCH, raising=False)


async def test_known_loops_have_both() -> None:
    assert waits_for_sockets()
    assert continues_in_callbacks() is event_loop.on_asyncio()


async def test_a_loop_of_which_nothing_is_known_has_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio, "get_running_loop", asyncio.AbstractEventLoop)
    assert waits_for_sockets() is not event_loop.on_asyncio()
    assert not continues_in_callbacks()


@pytest.mark.parametrize("version", [(3, 10, 0), (3, 99, 0)])
async def test_on_another_python_no_task_goes_on_in_a_callback(
    version: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "version_info", version)
    assert not continues_in_callbacks()
    assert waits_for_sockets()


async def test_windows_has_streams_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    assert not waits_for_sockets()


@pytest.mark.parametrize("value", ["anyio", "other"])
async def test_the_switch_leaves_sockets_to_anyio(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, value)
    async with fake_nsqd() as server, await dial(server.parsed, timeout=5) as stream:
        assert type(stream) is (TimedSends if value == "anyio" else DirectSocketStream)
