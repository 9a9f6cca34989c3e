"""The metrics."""

from __future__ import annotations

from typing import Final

from opentelemetry.metrics import Counter, Histogram, MeterProvider, get_meter

from ...version import VERSION
from .conventions import SCHEMA_URL

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
