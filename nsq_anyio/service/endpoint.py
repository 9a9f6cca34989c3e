"""The HTTP endpoint of a service: ``/healthz``, ``/readyz`` and ``/metrics``, and the metrics behind it."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol

import anyio.to_thread

from ..address import Address, ListenAddress
from ..consumer import Consumer
from ..errors import InvalidOption
from ..serving.http_messages import Request, Response
from ..serving.http_server import serve_http
from ..serving.listener import local_port, open_listener
from ..tasks import background_tasks

if TYPE_CHECKING:
    from prometheus_client import Metric

    from ..delaying import Delays
    from ..instrumentation.prometheus import NSQCollector


_log = logging.getLogger("nsq_anyio.service")

_TEXT = ("Content-Type", "text/plain; charset=utf-8")
_METRICS = ("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
_ALLOW = ("Allow", "GET, HEAD")

_MISSING = "prometheus_client is not installed: pip install 'nsq-anyio[prometheus]'"


class MetricsUnavailable(Exception):
    """A package that metrics need is not installed; the text says which."""


class Health(Protocol):
    """The state that the endpoint reports."""

    async def why_not_alive(self) -> Sequence[str]:
        """Return the problems that only a restart can fix; empty if there are none."""
        ...

    async def why_not_ready(self) -> Sequence[str]:
        """Return why messages are not being handled; empty if they are."""
        ...

    async def metrics(self) -> bytes:
        """Return the metrics in Prometheus' text format.

        :raises MetricsUnavailable: if prometheus_client is not installed
        """
        ...


@asynccontextmanager
async def health_endpoint(address: ListenAddress, health: Health) -> AsyncGenerator[Address]:
    """Answer HTTP requests on ``address`` for the length of the block, which gets the address in use.

    :raises InvalidOption: if the host name is not valid
    :raises ListenFailed: if the address cannot be listened on
    """

    async def answer(request: Request) -> Response:
        return await _answer(request, health)

    async with await open_listener(*address) as listener, background_tasks() as tasks:
        tasks.start_soon(serve_http, listener, answer)
        listening = Address(address.host, local_port(listener))
        _log.info("HTTP: listening on %s", listening)
        yield listening


async def _answer(request: Request, health: Health) -> Response:
    if request.target.path not in ("/healthz", "/readyz", "/metrics"):
        return _text(HTTPStatus.NOT_FOUND, ["use /healthz, /readyz or /metrics"])
    if request.method not in ("GET", "HEAD"):
        return Response(HTTPStatus.METHOD_NOT_ALLOWED, headers=(_ALLOW,))
    if request.target.path == "/metrics":
        try:
            return Response(HTTPStatus.OK, await health.metrics(), (_METRICS,))
        except MetricsUnavailable as error:
            return _text(HTTPStatus.NOT_IMPLEMENTED, [str(error)])
    is_live = request.target.path == "/healthz"
    problems = await (health.why_not_alive() if is_live else health.why_not_ready())
    if problems:
        return _text(HTTPStatus.SERVICE_UNAVAILABLE, problems)
    return _text(HTTPStatus.OK, ["OK"])


def _text(status: HTTPStatus, lines: Sequence[str]) -> Response:
    return Response(status, "".join(f"{line}\n" for line in lines).encode(), (_TEXT,))


class Metrics:
    """Collects the metrics of consumers and services for delays, if the extra ``prometheus`` is installed."""

    def __init__(self) -> None:
        self._collector: NSQCollector | None = None
        try:
            from ..instrumentation.prometheus import NSQCollector  # noqa: PLC0415 - needs the extra
        except ImportError:
            return
        self._collector = NSQCollector(registry=None)

    def add(self, measured: Consumer | Delays) -> None:
        """Collect the metrics of a consumer or service, unless a collector of the program already does."""
        if self._collector is not None:
            with suppress(InvalidOption):
                self._collector.add(measured)

    async def text(self) -> bytes:
        """Return these metrics and those of prometheus_client's default registry, in Prometheus' text format.

        :raises MetricsUnavailable: if the extra is not installed
        """
        if self._collector is None:
            raise MetricsUnavailable(_MISSING)
        # In a thread, because the collectors may wait for event loops, or for anything else.
        return await anyio.to_thread.run_sync(self._collect, self._collector)

    def _collect(self, collector: NSQCollector) -> bytes:
        from prometheus_client import REGISTRY  # noqa: PLC0415 - needs the extra

        families = Families()
        for family in (*collector.collect(), *REGISTRY.collect()):
            families.add(family)
        return families.text()


class Families:
    """Metrics of several sources, each family and each sample once, as the text format requires."""

    def __init__(self) -> None:
        self._families: dict[str, Metric] = {}

    def add(self, family: Metric) -> None:
        """Add the samples of a family."""
        known = self._families.setdefault(family.name, family)
        if known is not family:
            there = {(sample.name, *sample.labels.items()) for sample in known.samples}
            new = [each for each in family.samples if (each.name, *each.labels.items()) not in there]
            known.samples = [*known.samples, *new]

    def collect(self) -> Iterator[Metric]:
        """Yield the families, as `generate_latest` expects of a registry."""
        yield from self._families.values()

    def text(self) -> bytes:
        """Return all families in Prometheus' text format.

        :raises MetricsUnavailable: if the extra is not installed
        """
        try:
            from prometheus_client import generate_latest  # noqa: PLC0415 - needs the extra
        except ModuleNotFoundError as error:
            raise MetricsUnavailable(_MISSING) from error
        return generate_latest(self)
