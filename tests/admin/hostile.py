"""Servers that answer whatever would do harm, and what a page must not have because of it."""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

import anyio

from nsq_anyio.serving.http_messages import Request, Response
from nsq_anyio.serving.http_server import serve_http
from nsq_anyio.serving.listener import local_port, open_listener
from nsq_anyio.tasks import background_tasks

EVIL = "\"'></title></script><script>alert(1)</script><img src=x onerror=alert(2)>{{7*7}}\n\x1b[2J"
LARGE = 2**63 - 1

Answer = bytes | Callable[[], Awaitable[Response]]


@dataclass
class Fake:
    """A server whose answers can be replaced.

    :ivar answers: by path; what has none is answered with 500 and a hostile code
    """

    answers: dict[str, Answer] = field(default_factory=dict[str, Answer])
    asked: list[str] = field(default_factory=list[str])
    port: int = 0

    @property
    def name(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"http://{self.name}"

    async def answer(self, request: Request) -> Response:
        self.asked.append(request.target.path)
        found = self.answers.get(request.target.path)
        if found is None:
            return Response(500, json.dumps({"message": EVIL}).encode())
        return Response(200, found) if isinstance(found, bytes) else await found()


@asynccontextmanager
async def fake() -> AsyncGenerator[Fake]:
    async with await open_listener("127.0.0.1", 0) as listener, background_tasks() as tasks:
        server = Fake(port=local_port(listener))
        tasks.start_soon(serve_http, listener, server.answer)
        yield server


@asynccontextmanager
async def hostile_cluster(text: str = EVIL, number: int = 7) -> AsyncGenerator[tuple[Fake, Fake]]:
    """An nsqlookupd and an nsqd that fill every text and every number of their answers."""
    async with fake() as lookupd, fake() as nsqd:
        lookupd.answers = as_nsqlookupd([nsqd.port], text)
        nsqd.answers = as_nsqd(text, number)
        yield lookupd, nsqd


def as_nsqlookupd(ports: list[int], text: str = "host") -> dict[str, Answer]:
    producers = [
        {
            "remote_address": text,
            "hostname": text,
            "broadcast_address": address,
            "tcp_port": port,
            "http_port": port,
            "version": text,
            "topics": ["clicks", text],
            "tombstones": [False, True],
        }
        for port in ports
        for address in ("127.0.0.1", text)
        if not address.isalpha()  # which would be looked up
    ]
    return _as_json(
        {
            "/nodes": {"producers": producers},
            "/lookup": {"channels": ["archive", text], "producers": producers},
            "/topics": {"topics": ["clicks", "idle", text]},
            "/channels": {"channels": ["archive", text]},
        }
    )


def as_nsqd(text: str = "host", number: int = 7) -> dict[str, Answer]:
    client = {
        **dict.fromkeys(("client_id", "hostname", "version", "remote_address", "user_agent"), text),
        **dict.fromkeys(("auth_identity", "auth_identity_url", "tls_cipher_suite", "tls_version"), text),
        **dict.fromkeys(("ready_count", "in_flight_count", "message_count", "finish_count"), number),
        **dict.fromkeys(("requeue_count", "connect_ts", "state"), number),
        "tls": True,
        "authed": True,
        "pub_counts": [{"topic": text, "count": number}, {"topic": "clicks", "count": number}],
    }
    percentiles = [{"quantile": 0.99, "value": number}, {"quantile": number, "value": number}]
    latency = {"count": number, "percentiles": percentiles}
    counts = ("depth", "backend_depth", "message_count")
    channels = [
        {
            "channel_name": name,
            **dict.fromkeys((*counts, "in_flight_count", "deferred_count"), number),
            **dict.fromkeys(("requeue_count", "timeout_count", "client_count"), number),
            "clients": [client],
            "paused": True,
            "e2e_processing_latency": latency,
        }
        for name in ("archive", text)
    ]
    topics = [
        {
            "topic_name": name,
            **dict.fromkeys((*counts, "message_bytes"), number),
            "channels": channels,
            "paused": True,
            "e2e_processing_latency": latency,
        }
        for name in ("clicks", text)
    ]
    about = {"version": text, "hostname": text, "broadcast_address": text, "http_port": 1, "tcp_port": 1}
    return _as_json(
        {
            "/info": {**about, "start_time": number},
            "/stats": {
                "version": text,
                "health": text,
                "start_time": number,
                "topics": topics,
                "producers": [client],
            },
        }
    )


def _as_json(answers: dict[str, Any]) -> dict[str, Answer]:
    return {path: json.dumps(value).encode() for path, value in answers.items()}


async def endless() -> Response:
    await anyio.sleep_forever()
    raise AssertionError


class Harm(HTMLParser):
    """Finds what a page could run or load that is not its own.

    :ivar found: each such thing, in words
    :ivar links: where its links lead
    """

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []
        self.links: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("iframe", "object", "embed", "base", "style", "template", "math", "svg", "script", "img"):
            own = dict(attrs).get("src") or ""
            if not own.startswith("/static/") and not (tag == "svg" and "spark" in str(dict(attrs))):
                self.found.append(f"<{tag} {attrs}>")
        for name, value in attrs:
            text = (value or "").strip()
            if name.startswith(("on", "hx-on")) or name in ("style", "srcdoc", "hx-vals", "hx-vars"):
                self.found.append(f"{name}={text}")
            if name in ("href", "src", "action", "formaction", "hx-get", "hx-post") and text:
                if not text.startswith(("/", "#", "?")) or text.startswith("//"):
                    self.found.append(f"{name}={text}")
                elif name == "href":
                    self.links.append(text)
