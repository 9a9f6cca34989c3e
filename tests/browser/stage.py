"""Real nsqds and the dashboard as its command serves it, for tests that drive a browser."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import anyio.from_thread
import httpx
from anyio.from_thread import BlockingPortal
from playwright.sync_api import Page

from ..interop.cluster import Cluster, Server, run_cluster
from .proxy import Proxy, proxied

_LISTENING = re.compile(r"HTTP: listening on (\S+)")
_PATIENCE = 20.0

T = TypeVar("T")


class Stage:
    """A cluster of real servers, and dashboards that show it."""

    def __init__(self, portal: BlockingPortal, cluster: Cluster) -> None:
        self._portal = portal
        self._cluster = cluster
        self.nsqlookupd = self.start_nsqlookupd()
        self.nsqds = [self.start_nsqd(), self.start_nsqd()]

    def start_nsqlookupd(self, succeeding: Server | None = None) -> Server:
        return self._portal.call(lambda: self._cluster.nsqlookupd("real", succeeding=succeeding))

    def start_nsqd(self, succeeding: Server | None = None) -> Server:
        lookups = [self.nsqlookupd]
        return self._portal.call(lambda: self._cluster.nsqd("real", lookupds=lookups, succeeding=succeeding))

    def call(self, method: Callable[..., Any], *arguments: Any) -> Any:
        """Call an async method of a server, such as ``nsqd.publish``."""
        return self._portal.call(method, *arguments)

    def publish(self, topic: str, *bodies: bytes, at: int = 0) -> None:
        self.call(self.nsqds[at].publish, topic, *bodies)

    def post(self, path: str, *, at: int = 0) -> None:
        """Act on an nsqd itself, such as ``/channel/create?topic=t&channel=c``."""
        httpx.post(self.nsqds[at].http_url + path, trust_env=False).raise_for_status()

    def channel(self, topic: str, channel: str, *, at: int = 0) -> dict[str, Any]:
        """The statistics of a channel on one nsqd; empty if it is not there."""
        channels = self.topic(topic, at=at).get("channels", ())
        none: dict[str, Any] = {}
        return next((each for each in channels if each["channel_name"] == channel), none)

    def topic(self, topic: str, *, at: int = 0) -> dict[str, Any]:
        """The statistics of a topic on one nsqd; empty if it is not there."""
        reply = httpx.get(
            f"{self.nsqds[at].http_url}/stats?format=json&topic={topic}", trust_env=False
        ).json()
        none: dict[str, Any] = {}
        return next((each for each in reply["topics"] or () if each["topic_name"] == topic), none)

    @contextmanager
    def suspended(self, at: int) -> Generator[None]:
        """Let an nsqd do nothing for the length of the block; nsqlookupd does not notice."""
        self.nsqds[at].suspend()
        try:
            yield
        finally:
            self.nsqds[at].resume()

    @contextmanager
    def proxy(self, dashboard: str) -> Generator[Proxy]:
        """Run a proxy in front of a dashboard."""
        port = urlsplit(dashboard).port
        assert port
        with self._portal.wrap_async_context_manager(proxied(port)) as proxy:
            yield proxy

    @contextmanager
    def dashboard(self, directory: Path, *flags: str) -> Generator[str]:
        """Run ``nsq-anyio admin``; yields its URL."""
        with self.dashboard_process(directory, *flags) as (url, _):
            yield url

    @contextmanager
    def dashboard_process(
        self, directory: Path, *flags: str
    ) -> Generator[tuple[str, subprocess.Popen[bytes]]]:
        """Run ``nsq-anyio admin``; yields its URL and its process."""
        log = directory / "admin.log"
        command = [sys.executable, "-m", "nsq_anyio", "admin", "--http-address=127.0.0.1:0"]
        command += [f"--lookupd-http-address={self.nsqlookupd.http_address}", *flags]
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            yield f"http://{_address(process, log)}", process
        finally:
            process.terminate()
            process.wait(_PATIENCE)


def until(condition: Callable[[], T | None], what: str, seconds: float = _PATIENCE) -> T:
    """Wait until a server shows what was done, and return what `condition` has returned."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"{what}: not within {seconds:g} s"
        time.sleep(0.05)
    return found


def visit(page: Page, url: str) -> None:
    """Open a page once the dashboard has polled what it is about."""
    until(lambda: httpx.get(url, trust_env=False).status_code == 200, f"{url} is there")
    page.goto(url)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    found: list[str] = []

    def has_begun() -> bool:
        text = log.read_text("utf-8", errors="replace")
        assert process.poll() is None, text
        found[:] = _LISTENING.findall(text)
        return bool(found)

    until(has_begun, "the dashboard listens")
    return found[0]


@contextmanager
def on_stage() -> Generator[Stage]:
    """Start two nsqds and an nsqlookupd, in a thread, since a browser is driven by plain functions."""
    with anyio.from_thread.start_blocking_portal() as portal:
        with portal.wrap_async_context_manager(run_cluster()) as cluster:
            yield Stage(portal, cluster)
