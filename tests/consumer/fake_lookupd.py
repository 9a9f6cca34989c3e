"""An nsqlookupd that says what a test lets it say, and consumers that ask it."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.abc import SocketStream

import nsq_anyio as nsq

from ..fake_nsqd import FakeNsqd, until
from ..http.support import tcp_server


def producer(address: str) -> dict[str, object]:
    host, _, port = address.rpartition(":")
    return {"broadcast_address": host, "tcp_port": int(port), "http_port": 1, "version": "1.3.0"}


@dataclass
class FakeLookupd:
    """The server; see the module.

    :ivar body: of its answers
    :ivar requests: the request lines it got
    :ivar times: when
    :ivar gate: nothing is answered until it is set
    """

    status: int = 200
    body: bytes = b""
    requests: list[str] = field(default_factory=list[str])
    times: list[float] = field(default_factory=list[float])
    gate: anyio.Event = field(default_factory=anyio.Event)
    url: str = ""

    def names(self, *nsqds: FakeNsqd) -> None:
        self.says({"channels": ["c"], "producers": [producer(nsqd.address) for nsqd in nsqds]})

    def says(self, value: Any, status: int = 200) -> None:
        self.status, self.body = status, json.dumps(value).encode()

    async def handle(self, stream: SocketStream) -> None:
        request = b""
        while b"\r\n\r\n" not in request:
            request += await stream.receive()
        self.requests.append(request.partition(b"\r\n")[0].decode())
        self.times.append(anyio.current_time())
        await self.gate.wait()
        head = f"HTTP/1.1 {self.status} X\r\nContent-Length: {len(self.body)}\r\nConnection: close\r\n\r\n"
        await stream.send(head.encode() + self.body)


@asynccontextmanager
async def fake_lookupd(*nsqds: FakeNsqd) -> AsyncGenerator[FakeLookupd]:
    lookupd = FakeLookupd()
    lookupd.names(*nsqds)
    lookupd.gate.set()
    async with tcp_server(lookupd.handle) as address:
        lookupd.url = f"http://{address}"
        yield lookupd


UNKNOWN_TOPIC = {"message": "TOPIC_NOT_FOUND"}


def at(*lookupds: FakeLookupd) -> list[str]:
    return [lookupd.url for lookupd in lookupds]


def addresses(*nsqds: FakeNsqd) -> list[str]:
    return sorted(nsqd.address for nsqd in nsqds)


async def connected(consumer: nsq.Consumer, *nsqds: FakeNsqd) -> None:
    """The consumer is subscribed to exactly these."""
    try:
        await until(lambda: sorted(consumer.connections) == addresses(*nsqds))
    except TimeoutError:
        raise AssertionError(f"{consumer.connections} instead of {addresses(*nsqds)}") from None


async def polled(lookupd: FakeLookupd, times: int) -> None:
    """It is asked so many times more."""
    target = len(lookupd.requests) + times
    await until(lambda: len(lookupd.requests) >= target)


def pruning(polls: int = 1, **changes: Any) -> nsq.ConsumerOptions:
    options: dict[str, Any] = {
        "lookupd_poll_interval": 0.02,
        "lookupd_poll_jitter": 0,
        "prune_after_polls": polls,
        "rdy_redistribute_interval": 0.005,
    }
    return nsq.ConsumerOptions(**options | changes)
