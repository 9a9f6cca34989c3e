"""Traces and metrics for OpenTelemetry, following its semantic conventions for messaging.

::

    from nsq_anyio.instrumentation.opentelemetry import OpenTelemetryMiddleware

    telemetry = OpenTelemetryMiddleware()

    async with (
        nsq.produce("127.0.0.1:4150", middleware=[telemetry]) as producer,
        nsq.consume("clicks", "archive", nsqd="127.0.0.1:4150", middleware=[telemetry]) as consumer,
    ):
        ...

It needs OpenTelemetry's API: ``pip install 'nsq-anyio[opentelemetry]'``. Spans and metrics go to the
providers of the program's SDK; without an SDK, nothing is recorded.
"""

from __future__ import annotations

import importlib

try:
    importlib.import_module("opentelemetry.trace")
except ImportError as _missing:
    raise ImportError(
        f"nsq_anyio.instrumentation.opentelemetry needs OpenTelemetry's API ({_missing}): "
        "pip install 'nsq-anyio[opentelemetry]'",
        name=_missing.name,
    ) from _missing

from .middleware import OpenTelemetryMiddleware, Receiving

__all__ = ["OpenTelemetryMiddleware", "Receiving"]
