"""nsqds for tests of Spark, which are plain functions: a real one, or the embedded one in its own process."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import anyio
import httpx
from anyio.from_thread import start_blocking_portal

import nsq_anyio as nsq

from ..real_servers import real_nsqd

Kind = Literal["embedded", "real"]

ROOT = Path(__file__).resolve().parents[2]

_LIMIT = 30.0
_BODIES_OF_MPUB = 5_000
_LISTENING = re.compile(r"^(TCP|HTTP): listening on (\S+)$", re.MULTILINE)


def wait_until(is_so: Callable[[], object], what: str, limit: float = _LIMIT) -> None:
    """Wait for something that another process does.

    :raises TimeoutError: naming it, if it is not so after ``limit`` seconds
    """
    give_up_at = time.monotonic() + limit
    while not is_so():
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"waited {limit:g} s for {what}")
        time.sleep(0.02)


@dataclass(frozen=True, slots=True)
class Channel:
    """What nsqd counts of a channel."""

    depth: int
    in_flight: int
    deferred: int
    requeued: int
    timed_out: int
    clients: int

    @property
    def left(self) -> int:
        """Messages that nobody has finished."""
        return self.depth + self.in_flight + self.deferred


@dataclass(frozen=True, slots=True)
class Nsqd:
    """A running nsqd.

    :ivar tcp_address: ``127.0.0.1:port``
    :ivar http_url: ``http://127.0.0.1:port``
    """

    kind: Kind
    tcp_address: str
    http_url: str

    @property
    def http_address(self) -> str:
        return self.http_url.removeprefix("http://")

    def topic(self, name: str, channel: str = "spark") -> Topic:
        """Make a topic with an empty channel."""
        self.request("POST", f"/topic/create?topic={name}")
        self.request("POST", f"/channel/create?topic={name}&channel={channel}")
        return Topic(self, name, channel)

    def publish(self, topic: str, bodies: Iterable[bytes]) -> int:
        """Publish to a topic; return how many there were."""
        frames = [len(body).to_bytes(4, "big") + body for body in bodies]
        for first in range(0, len(frames), _BODIES_OF_MPUB):
            some = frames[first : first + _BODIES_OF_MPUB]
            data = len(some).to_bytes(4, "big") + b"".join(some)
            self.request("POST", f"/mpub?topic={topic}&binary=true", data)
        return len(frames)

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        """Ask its HTTP side; anything but 200 raises."""
        # trust_env: a proxy set for the machine must not come between a test and its server.
        with httpx.Client(trust_env=False, timeout=_LIMIT) as client:
            reply = client.request(method, self.http_url + path, content=body)
        reply.raise_for_status()
        return reply.content


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of one nsqd, and the channel of it that a test reads."""

    nsqd: Nsqd
    name: str
    channel: str

    @property
    def options(self) -> dict[str, str]:
        """What ``format("nsq")`` must be told to read it."""
        return {
            "nsqd": self.nsqd.tcp_address,
            "nsqdHttp": self.nsqd.http_url,
            "topic": self.name,
            "channel": self.channel,
        }

    def publish(self, bodies: Iterable[bytes]) -> None:
        """Publish all, and wait until they are in the channel."""
        expected = self.state().left
        expected += self.nsqd.publish(self.name, bodies)
        wait_until(lambda: self.state().left >= expected, "nsqd to copy messages to the channel")

    def publish_numbers(self, count: int, first: int = 0) -> None:
        """Publish numbers as texts: what a `Ledger` counts."""
        self.publish(str(number).encode() for number in range(first, first + count))

    def take(self, count: int) -> list[bytes]:
        """Finish that many messages of the channel, and return their bodies."""

        async def take() -> list[bytes]:
            found: list[bytes] = []
            with anyio.fail_after(_LIMIT):
                async with nsq.consume(
                    self.name, self.channel, nsqd=self.nsqd.tcp_address, max_in_flight=min(count, 2_500)
                ) as consumer:
                    async for message in consumer:
                        found.append(message.body)
                        message.finish()
                        if len(found) == count:
                            break
            return found

        return anyio.run(take)

    def state(self) -> Channel:
        """Ask nsqd for the channel's counters."""
        (counters,) = [
            channel for channel in self._stats()["channels"] if channel["channel_name"] == self.channel
        ]
        return Channel(
            depth=counters["depth"],
            in_flight=counters["in_flight_count"],
            deferred=counters["deferred_count"],
            requeued=counters["requeue_count"],
            timed_out=counters["timeout_count"],
            clients=len(counters["clients"] or ()),
        )

    def _stats(self) -> dict[str, Any]:
        stats = json.loads(
            self.nsqd.request("GET", f"/stats?format=json&topic={self.name}&include_mem=false")
        )
        (topic,) = stats["topics"]
        found: dict[str, Any] = topic
        return found


def registered(lookupd_http_url: str, topic: str) -> int:
    """Ask nsqlookupd how many nsqds have told it of a topic."""
    with httpx.Client(trust_env=False, timeout=_LIMIT) as client:
        reply = client.get(f"{lookupd_http_url}/lookup?topic={topic}")
    return 0 if reply.status_code == 404 else len(reply.json()["producers"])


@contextmanager
def running_nsqd(kind: Kind, flags: Sequence[str] = ()) -> Generator[Nsqd]:
    """Run an nsqd for the length of the block; `flags` are those of the real one, which both kinds know."""
    if kind == "real":
        with (
            start_blocking_portal() as portal,
            portal.wrap_async_context_manager(real_nsqd(flags=flags)) as server,
        ):
            yield Nsqd(kind, server.tcp_address, server.http_url)
        return
    with tempfile.TemporaryDirectory(prefix="nsqd-") as directory, Path(directory, "log").open("w+b") as log:
        command = [sys.executable, "-m", "nsq_anyio", "nsqd"]
        addresses = [f"--{name}-address=127.0.0.1:0" for name in ("tcp", "http", "https")]
        process = subprocess.Popen(
            [*command, *addresses, *flags], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        try:
            found = _listening(process, Path(directory, "log"))
            yield Nsqd(kind, found["TCP"], f"http://{found['HTTP']}")
        finally:
            process.terminate()
            process.wait(_LIMIT)


def _listening(process: subprocess.Popen[bytes], log: Path) -> dict[str, str]:
    found: dict[str, str] = {}

    def is_known() -> bool:
        text = log.read_text(encoding="utf-8")
        assert process.poll() is None, f"the embedded nsqd ended with {process.returncode}; its log:\n{text}"
        found.update(_LISTENING.findall(text))
        return found.keys() >= {"TCP", "HTTP"}

    wait_until(is_known, "the embedded nsqd to listen")
    return found
