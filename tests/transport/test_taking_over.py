"""Going on with a socket that AnyIO has connected: at once, or not at all, and then nothing of it is left."""

from __future__ import annotations

import dis
import errno
import gc
import os
import socket
import sys
import threading
from contextlib import suppress
from types import FrameType
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from anyio.abc import SocketAttribute

from nsq_anyio.address import Address
from nsq_anyio.errors import DialFailed
from nsq_anyio.transport.dial import dial
from nsq_anyio.transport.socket_stream import DirectSocketStream

pytestmark = pytest.mark.anyio


class NoSocket:
    """What uvloop tells of the socket of a transport whose peer has reset it."""

    @property
    def extra_attributes(self) -> object:
        raise AttributeError("'NoneType' object has no attribute 'getpeername'")


class NoDescriptor:
    """A socket that cannot be copied, as the process may open no more files."""

    family, type, proto = socket.AF_INET, socket.SOCK_STREAM, 0

    @property
    def extra_attributes(self) -> object:
        return {SocketAttribute.raw_socket: lambda: self}

    def fileno(self) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


@pytest.mark.parametrize(
    ("base", "reason"), [(NoSocket, "Connection reset by peer"), (NoDescriptor, "Too many open files")]
)
async def test_a_socket_that_cannot_be_taken_over_is_closed(
    base: type[Any], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Connected(base):  # type: ignore[misc]
        closed = False

        async def aclose(self) -> None:
            self.closed = True
            await anyio.lowlevel.checkpoint()

    stream = Connected()

    async def connect_tcp(host: str, port: int) -> Connected:
        del host, port
        return stream

    monkeypatch.setattr(anyio, "connect_tcp", connect_tcp)
    with pytest.raises(DialFailed, match=f"cannot connect: .*{reason}"):
        await dial(Address("127.0.0.1", 1), timeout=5)
    assert stream.closed


@pytest.mark.skipif(sys.platform == "win32", reason="a reset needs SO_LINGER as the system has it")
async def test_peers_that_reset_at_once_are_no_more_than_failed_dials() -> None:
    """On uvloop one of twenty is found reset between its connection and the look at its address."""
    over = threading.Event()

    def reset_all(listener: socket.socket) -> None:
        while not over.is_set():
            peer, _ = listener.accept()
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            peer.close()

    async def dial_often(address: Address) -> None:
        for _ in range(20):
            with suppress(DialFailed):
                await (await dial(address, timeout=5)).aclose()

    with socket.create_server(("127.0.0.1", 0), backlog=100) as listener:
        resetting = threading.Thread(target=reset_all, args=[listener])
        resetting.start()
        address = Address("127.0.0.1", listener.getsockname()[1])
        try:
            async with anyio.create_task_group() as tasks:
                for _ in range(20):
                    tasks.start_soon(dial_often, address)
        finally:
            over.set()
            with suppress(DialFailed):
                await (await dial(address, timeout=5)).aclose()
            resetting.join()


class Striking:
    """Raises after one of the calls that `_copy` makes, or that a function makes which it calls.

    :param place: after which of them, in the order in which they return
    """

    def __init__(self, place: int) -> None:
        self.struck = False
        self._left = place
        self._after_call = False

    def __call__(self, frame: FrameType, event: str, arg: object) -> Any:
        del arg
        callers = [frame, frame.f_back]
        if self.struck or all(each is None or each.f_code.co_name != "_copy" for each in callers):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            self._left -= self._after_call
            if self._left < 0:
                self.struck = True
                raise KeyboardInterrupt
            self._after_call = dis.opname[frame.f_code.co_code[frame.f_lasti]].startswith("CALL")
        return self


async def struck_at(place: int) -> bool:
    """Whether there is such a place."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stream = await anyio.connect_tcp("127.0.0.1", listener.getsockname()[1])
        peer, _ = listener.accept()
    striking = Striking(place)
    before = sys.gettrace()
    with peer:
        sys.settrace(striking)
        try:
            await (await DirectSocketStream.taking_over(stream)).aclose()
        except KeyboardInterrupt:
            assert striking.struck
        finally:
            sys.settrace(before)
        gc.collect()  # of the copy that only the traceback referred to
        peer.settimeout(5)
        with anyio.fail_after(10):
            assert await anyio.to_thread.run_sync(peer.recv, 1) == b""
    return striking.struck


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_signal_handler_that_raises_leaves_no_connection_open() -> None:
    places = 0
    while await struck_at(places):
        places += 1
    assert places > 10
