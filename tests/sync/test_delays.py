"""Publishing for later from plain functions."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import nsq_anyio as nsq

from .conftest import Backend, published


def test_plain_functions_publish_for_later(nsqd: nsq.embedded.EmbeddedNsqd, backend: Backend) -> None:
    later = datetime.now(UTC) + timedelta(days=1)
    with nsq.sync.produce(nsqd.tcp_address, delays="nsq.delays", backend=backend) as producer:
        producer.publish("t", b"x", at=later)
        producer.publish_soon("t", b"x", defer=5, durable=True).result(10)
        with pytest.raises(nsq.InvalidOption, match="are both given"):
            producer.publish("t", b"x", at=later, defer=3)
        assert published(nsqd, "nsq.delays") == 2
