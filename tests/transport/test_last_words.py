"""The last bytes from a plain function: all of them through every layer, or the stream says that it is over."""

from __future__ import annotations

import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import ByteStream, SocketAttribute

from nsq_anyio.transport.compressed import CompressedStream
from nsq_anyio.transport.dial import dial
from nsq_anyio.transport.last_words import end_now, last_send
from nsq_anyio.transport.socket_stream import DirectSocketStream
from nsq_anyio.transport.timed_sends import TimedSends
from nsq_anyio.transport.tls import start_tls
from nsq_anyio.transport.tls_context import client_context

from ..connection.test_writer import Pipe
from ..layered_nsqd import Compression, make_codec, server_context
from ..tls_files import TLSFiles, tls_files
from .test_write_timeout import dial_anyio

__all__ = ["tls_files"]

pytestmark = pytest.mark.anyio

MUCH = bytes(range(256)) * 64 * 1024
"""16 MiB, which the kernel does not take at once; compressed by neither codec to less than 1/200."""

WAYS: dict[str, tuple[bool, Compression | None]] = {
    "plain": (False, None),
    "tls": (True, None),
    "snappy": (False, "snappy"),
    "deflate": (False, "deflate"),
    "tls-snappy": (True, "snappy"),
    "tls-deflate": (True, "deflate"),
}
