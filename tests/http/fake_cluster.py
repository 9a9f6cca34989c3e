"""nsqds and nsqlookupds of a cluster that say what a test lets them say, and keep what they were asked."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx

from nsq_anyio.http import Cluster

from . import samples
from .support import JSON_TYPE

NOT_FOUND = {"message": "TOPIC_NOT_FOUND"}


@dataclass(slots=True)
class Refused:
    """An answer with an error status."""

    status: int
    code: str


@dataclass(slots=True)
class Late:
    """An answer after some seconds."""

    seconds: float
    answer: Any


HANG = object()
"""Instead of an answer."""

DOWN = httpx.ConnectError("refused")
"""What a server that is down answers with."""


def producer(host: str, **others: Any) -> dict[str, Any]:
    """An nsqd as nsqlookupd tells of it."""
    return {**samples.PRODUCER, "broadcast_address": host, "hostname": host, **others}


def channel(name: str = "c", **others: Any) -> dict[str, Any]:
    return {**samples.CHANNEL, "channel_name": name, "clients": [], "client_count": 0, **others}


def topic(name: str = "t", channels: Sequence[dict[str, Any]] = (), **others: Any) -> dict[str, Any]:
    return {**samples.TOPIC, "topic_name": name, "channels": list(channels), **others}


@dataclass(slots=True)
class FakeCluster:
    """Servers by host name, which are nsqlookupds on port 4161 and nsqds on 4151.

    :ivar answers: by host, then by path: JSON, `Refused`, an exception, `Late`, or `HANG`; an empty 200 where
        a POST has none. A host that has no answers is down
    :ivar asked: ``METHOD host/path?parameters``, in the order of arrival
    :ivar requests: the same in full
    :ivar running: how many requests are being answered
    :ivar at_once: how many requests were there at the same time, at most
    """

    answers: dict[str, dict[str, Any]]
    asked: list[str] = field(default_factory=list[str])
    requests: list[httpx.Request] = field(default_factory=list[httpx.Request])
    at_once: int = 0
    running: int = 0

    def cluster(self, nsqlookupd: Sequence[str] = (), nsqd: Sequence[str] = (), **options: Any) -> Cluster:
        return Cluster(
            [f"http://{host}:4161" for host in nsqlookupd],
            [f"http://{host}:4151" for host in nsqd],
            transport=httpx.MockTransport(self.handle),
            **options,
        )

    def posts(self) -> list[str]:
        """The actions that were asked for, without ``METHOD``."""
        return [line.removeprefix("POST ") for line in self.asked if line.startswith("POST ")]

    async def handle(self, request: httpx.Request) -> httpx.Response:
        self.running += 1
        self.at_once = max(self.at_once, self.running)
        try:
            await anyio.sleep(0.001)
            return await self._answer(request)
        finally:
            self.running -= 1

    async def _answer(self, request: httpx.Request) -> httpx.Response:
        host, path = request.url.host, request.url.path
        self.requests.append(request)
        self.asked.append(f"{request.method} {host}{path}?{request.url.query.decode()}".removesuffix("?"))
        paths: Mapping[str, Any] | None = self.answers.get(host)
        answer = DOWN if paths is None else paths.get(path, {} if request.method == "POST" else DOWN)
        if isinstance(answer, Late):
            await anyio.sleep(answer.seconds)
            answer = answer.answer
        match answer:
            case httpx.RequestError():
                raise answer.with_traceback(None)  # or it would remember everybody that it was raised to
            case Refused(status, code):
                return _json(status, {"message": code})
            case _ if answer is HANG:
                await anyio.sleep_forever()
                raise AssertionError
            case _:
                return _json(200, answer)


def _json(status: int, value: Any) -> httpx.Response:
    return httpx.Response(status, content=json.dumps(value).encode(), headers={"Content-Type": JSON_TYPE})


def lookupd(*hosts: str, **others: Any) -> dict[str, Any]:
    """The answers of an nsqlookupd that knows these nsqds."""
    producers = [producer(host) for host in hosts]
    nodes = [{**found, "topics": ["t"], "tombstones": [False]} for found in producers]
    return {
        "/topics": {"topics": ["t"]},
        "/channels": {"channels": ["c"]},
        "/lookup": {"channels": ["c"], "producers": producers},
        "/nodes": {"producers": nodes},
        **others,
    }


def nsqd(host: str, *topics: dict[str, Any], **others: Any) -> dict[str, Any]:
    """The answers of an nsqd that has these topics."""
    info = {**samples.INFO, "broadcast_address": host, "hostname": host, "tcp_port": 4150}
    return {"/info": info, "/stats": {**samples.STATS, "topics": list(topics), "memory": None}, **others}
