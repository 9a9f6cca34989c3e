"""An SDK of OpenTelemetry that keeps what it is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, Metric
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, SpanContext, Tracer

from nsq_anyio.instrumentation.opentelemetry import OpenTelemetryMiddleware


class Recorder:
    """Providers of their own, whose spans and metrics a test looks at."""

    def __init__(self) -> None:
        self._spans = InMemorySpanExporter()
        self._reader = InMemoryMetricReader()
        self.tracer_provider = TracerProvider()
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self._spans))
        self.meter_provider = MeterProvider([self._reader])
        self.tracer: Tracer = self.tracer_provider.get_tracer("test")

    def middleware(self, **arguments: Any) -> OpenTelemetryMiddleware:
        return OpenTelemetryMiddleware(
            tracer_provider=self.tracer_provider, meter_provider=self.meter_provider, **arguments
        )

    def spans(self, operation: str = "") -> list[ReadableSpan]:
        """The spans that have ended, in that order; those of one operation if it is named."""
        spans = self._spans.get_finished_spans()
        return [span for span in spans if span.name.startswith(operation)]

    def span(self, operation: str) -> ReadableSpan:
        """The only span of an operation."""
        (span,) = self.spans(operation)
        return span

    def metrics(self) -> dict[str, Metric]:
        data = self._reader.get_metrics_data()
        if data is None:
            return {}
        (resource,) = data.resource_metrics
        (scope,) = resource.scope_metrics
        assert scope.scope.name == "nsq_anyio"
        return {metric.name: metric for metric in scope.metrics}

    def points(self, name: str) -> list[tuple[dict[str, Any], Any]]:
        """The attributes and the data of each point of a metric."""
        metric = self.metrics().get(name)
        points: Sequence[Any] = metric.data.data_points if metric else []
        return [(dict(point.attributes), point) for point in points]


def attributes(of: ReadableSpan | Link) -> Mapping[str, Any]:
    return dict(of.attributes or {})


def context(span: ReadableSpan) -> SpanContext:
    found: SpanContext | None = span.context
    assert found is not None
    return found


def linked(span: ReadableSpan) -> list[int]:
    """The ids of the spans that it has links to."""
    return [link.context.span_id for link in span.links]


def parent_id(span: ReadableSpan) -> int | None:
    return span.parent.span_id if span.parent else None
