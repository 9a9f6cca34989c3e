"""One operation: its span, its duration, and how it ends."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.metrics import Histogram

from .conventions import ERROR_TYPE, Attributes, OperationName
from .failure import Failure


class Start:
    """The time at which an operation began, which is when this is created.

    The span and the metric get the same duration, as the conventions require. It is measured on a monotonic
    clock.
    """

    __slots__ = ("_elapsing", "time")

    def __init__(self) -> None:
        self.time: int = time.time_ns()
        self._elapsing = time.perf_counter_ns()

    def elapsed(self) -> int:
        """Return the nanoseconds since then."""
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
