"""The HTTP endpoint of a service: ``/healthz``, ``/readyz`` and ``/metrics``."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Protocol

from ..address import Address, ListenAddress
from ..serving.http_messages import Request, Response
from ..serving.http_server import serve_http
from ..serving.listener import local_port, open_listener
from ..tasks import background_tasks

_log = logging.getLogger("nsq_anyio.service")

_TEXT = ("Content-Type", "text/plain; charset=utf-8")
_METRICS = ("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
_ALLOW = ("Allow", "GET, HEAD")


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
