"""Operations: their spans, durations, metrics and failures."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.metrics import Counter, Histogram, MeterProvider, get_meter

from ...errors import PublishRejected, Requeue
from ...exceptions import only_error
from ...tasks import is_stray
from ...version import VERSION
from .conventions import ERROR_TYPE, SCHEMA_URL, Attributes, OperationName


@dataclass(frozen=True, slots=True)
class Failure:
    """The failure of an operation.

    :ivar type: the value of ``error.type``: nsqd's error code, the exception's class, or the outcome
    :ivar error: the exception; None if none was raised
    """

    type: str
    error: BaseException | None = None


def failure(outcome: str | None, error: BaseException | None) -> Failure | None:
    """Return how the handling or the publish failed; None if it did not fail.

    A cancellation is not a failure, because the program wanted it. Neither is `Requeue`, with which the
    handler asks for the message again later. A message that was given up or has timed out counts as a
    failure.
    """
    raised = None if error is None else only_error(error)
    if raised is not None and not isinstance(raised, Requeue):
        if isinstance(raised, PublishRejected):
            return Failure(raised.code, raised)
        if isinstance(raised, Exception) or is_stray(raised):
            return Failure(_class_name(raised), raised)
    return Failure(outcome) if outcome in {"gave_up", "timed_out"} else None


def _class_name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10)
"""The bucket bounds that the conventions recommend for these histograms."""


class Instruments:
    """The instruments that the conventions define for messaging.

    :param meter_provider: None for the global one
    """

    def __init__(self, meter_provider: MeterProvider | None) -> None:
        meter = get_meter("nsq_anyio", VERSION, meter_provider, SCHEMA_URL)
        self.sent: Counter = meter.create_counter(
            "messaging.client.sent.messages",
            unit="{message}",
            description="Number of messages producer attempted to send to the broker.",
        )
        self.consumed: Counter = meter.create_counter(
            "messaging.client.consumed.messages",
            unit="{message}",
            description="Number of messages that were delivered to the application.",
        )
        self.operation_duration: Histogram = meter.create_histogram(
            "messaging.client.operation.duration",
            unit="s",
            description="Duration of messaging operation initiated by a producer or consumer client.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self.process_duration: Histogram = meter.create_histogram(
            "messaging.process.duration",
            unit="s",
            description="Duration of processing operation.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )


class Start:
    """The time at which an operation began: when this object is created.

    The span and the metric get the same duration, as the conventions require. It is measured on a monotonic
    clock.
    """

    __slots__ = ("_elapsing", "time")

    def __init__(self) -> None:
        self.time: int = time.time_ns()
        self._elapsing = time.perf_counter_ns()

    def elapsed(self) -> int:
        """Return the nanoseconds since the start."""
        return time.perf_counter_ns() - self._elapsing


class Operation:
    """A span that is open until `end`.

    :param common: the attributes that the span and the metric have in common
    :param own: the additional attributes of the span
    :param duration: the metric of the duration
    :param context: the context with the span's parent and the baggage
    :ivar context: the same context, with this span as the current one
    """

    __slots__ = ("_common", "_duration", "_start", "context", "span")

    def __init__(
        self,
        tracer: trace.Tracer,
        name: OperationName,
        topic: str,
        kind: trace.SpanKind,
        *,
        common: Attributes,
        own: Attributes,
        duration: Histogram,
        context: Context,
        links: Sequence[trace.Link] = (),
        start: Start | None = None,
    ) -> None:
        self._common = common
        self._duration = duration
        self._start = start or Start()
        self.span: trace.Span = tracer.start_span(
            f"{name} {topic}",
            context,
            kind,
            attributes={**common, **own},
            links=links,
            start_time=self._start.time,
            record_exception=False,
            set_status_on_exception=False,
        )
        self.context: Context = trace.set_span_in_context(self.span, context)

    @contextmanager
    def current(self) -> Generator[None]:
        """Make the span the current one within a block."""
        token = attach(self.context)
        try:
            yield
        finally:
            detach(token)

    def end(self, ending: Attributes, failure: Failure | None) -> Attributes:
        """End the span and record the duration.

        :param ending: more attributes for the span and the metric
        :returns: the attributes of the metric
        """
        elapsed = self._start.elapsed()
        if failure is not None:
            ending = {**ending, ERROR_TYPE: failure.type}
            if failure.error is not None:
                self.span.record_exception(failure.error)
            self.span.set_status(trace.StatusCode.ERROR, str(failure.error) if failure.error else None)
        self.span.set_attributes(ending)
        self.span.end(self._start.time + elapsed)
        measured: Attributes = {**self._common, **ending}
        self._duration.record(elapsed / 1e9, measured, self.context)
        return measured
