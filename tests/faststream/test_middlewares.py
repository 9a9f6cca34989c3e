"""Traces and metrics."""

from __future__ import annotations

import pytest
from faststream_nsq import NsqBroker, TestNsqBroker
from faststream_nsq.opentelemetry import NsqTelemetryMiddleware
from faststream_nsq.prometheus import NsqPrometheusMiddleware
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry

pytestmark = pytest.mark.anyio


async def test_a_trace_goes_through_the_headers() -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    telemetry = NsqTelemetryMiddleware(tracer_provider=provider)
    broker = NsqBroker("127.0.0.1:1", logger=None, middlewares=[telemetry])

    @broker.subscriber("t", "c")
    @broker.publisher("out")
    async def handle(number: int) -> int:
        return number

    @broker.subscriber("out", "c", batch=True)
    async def out(numbers: list[int]) -> None: ...

    async with TestNsqBroker(broker) as test:
        await test.publish(1, "t", correlation_id="mine")
    spans = exporter.get_finished_spans()
    assert len({span.context.trace_id for span in spans if span.context}) == 1
    attributes = [{name: str(value) for name, value in (span.attributes or {}).items()} for span in spans]
    assert {each["messaging.system"] for each in attributes} == {"nsq"}
    assert {each["messaging.message.conversation_id"] for each in attributes} == {"mine"}
    assert any(each.get("messaging.batch.message_count") == "1" for each in attributes)
    assert {span.name for span in spans} >= {"t publish", "t process", "out publish", "out process"}


async def test_metrics() -> None:
    registry = CollectorRegistry()
    metrics = NsqPrometheusMiddleware(registry=registry, app_name="test")
    broker = NsqBroker("127.0.0.1:1", logger=None, middlewares=[metrics])

    @broker.subscriber("t", "c")
    async def handle(text: str) -> None:
        if text == "bad":
            raise ValueError

    @broker.subscriber("b", "c", batch=True)
    async def batch(texts: list[str]) -> None: ...

    async with TestNsqBroker(broker) as test:
        await test.publish("good", "t")
        with pytest.raises(ValueError):
            await test.publish("bad", "t")
        await test.publish_batch("one", "two", "three", topic="b")
    labels = {"app_name": "test", "broker": "nsq", "handler": "t"}
    assert registry.get_sample_value("faststream_received_messages_total", labels) == 2
    for status in ("acked", "error"):
        processed = {**labels, "status": status}
        assert registry.get_sample_value("faststream_received_processed_messages_total", processed) == 1
    of_batches = {**labels, "handler": "b"}
    assert registry.get_sample_value("faststream_received_messages_total", of_batches) == 3
    assert registry.get_sample_value("faststream_received_messages_size_bytes_sum", of_batches) == 11
    published = {"app_name": "test", "broker": "nsq", "destination": "t", "status": "success"}
    assert registry.get_sample_value("faststream_published_messages_total", published) == 1
