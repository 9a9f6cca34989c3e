"""The metrics of a service for delays: its counters, what waits in its file, and what its end leaves."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio.to_thread
import pytest

import nsq_anyio as nsq
from nsq_anyio.delaying import Selection
from nsq_anyio.errors import InvalidOption

from ..fake_nsqd import until
from .scraping import Scraper

pytestmark = pytest.mark.anyio

YEAR = timedelta(days=365)


async def test_a_service_is_measured_with_its_consumer_and_producer(scraper: Scraper, tmp_path: Path) -> None:
    now = time.time()
    async with (
        nsq.embedded.nsqd() as nsqd,
        nsq.produce(nsqd.tcp_address, delays="nsq.delays") as producer,
        nsq.delays(tmp_path / "delays.db", nsqd=nsqd.tcp_address, clock=lambda: now) as delays,
    ):
        scraper.collector.add(delays)
        at = datetime.now(UTC) + YEAR
        for topic, body in (("reminders", b"one"), ("reminders", b"two"), ("invoices", b"three")):
            await producer.publish(topic, body, at=at)
        await producer.publish("nsq.delays", b"no delay")
        await until(lambda: scraper()("delays_messages_stored_total") == 3)
        await until(lambda: scraper()("delays_messages_unreadable_total") == 1)
        shown = await anyio.to_thread.run_sync(scraper)
        assert shown("delays_messages_waiting", topic="reminders") == 2
        assert shown("delays_messages_waiting", topic="invoices") == 1
        assert shown("delays_waiting_bytes") == 3 + 3 + 5
        assert shown("delays_messages_failing") == shown("delays_lateness_seconds") == 0
        assert shown("consumer_messages_total", topic="nsq.delays", channel="delays") == 4
        now = at.timestamp() + 60
        assert scraper()("delays_lateness_seconds") == pytest.approx(60, abs=1)
        await until(lambda: scraper()("delays_messages_published_total") == 3)
        await until(lambda: not scraper().all("delays_messages_waiting"))
        assert scraper()("producer_messages_total", topic="reminders", outcome="stored") == 2
        assert scraper()("delays_lateness_seconds") == 0
        with pytest.raises(InvalidOption):
            scraper.collector.add(delays)
    for _ in range(2):
        ended = scraper()
        assert ended("delays_messages_stored_total") == ended("delays_messages_published_total") == 3
        assert ended.all("delays_lateness_seconds") == []
    assert scraper.collector.measured == 0


async def test_a_file_that_cannot_be_read_leaves_the_counters(
    scraper: Scraper, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "delays.db"
    async with (
        nsq.embedded.nsqd() as nsqd,
        nsq.produce(nsqd.tcp_address, delays="nsq.delays") as producer,
        nsq.delays(path, nsqd=nsqd.tcp_address) as delays,
    ):
        scraper.collector.add(delays)
        await producer.publish("reminders", b"one", at=datetime.now(UTC) + YEAR)
        await until(lambda: scraper()("delays_messages_stored_total") == 1)
        path.rename(tmp_path / "moved.db")
        with caplog.at_level(logging.WARNING, "nsq_anyio"):
            shown = scraper()
        assert shown("delays_messages_stored_total") == 1
        assert shown.all("delays_messages_waiting") == []
        assert "a scrape has no figures of what waits" in caplog.text
        (tmp_path / "moved.db").rename(path)
        assert await delays.cancel(Selection()) == 1


async def test_topics_without_number_share_a_label(
    scraper: Scraper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nsq_anyio.instrumentation.prometheus.readers.MOST_TOPICS", 2)
    async with (
        nsq.embedded.nsqd() as nsqd,
        nsq.produce(nsqd.tcp_address, delays="nsq.delays") as producer,
        nsq.delays(tmp_path / "delays.db", nsqd=nsqd.tcp_address) as delays,
    ):
        scraper.collector.add(delays)
        for topic in "abcd":
            await producer.publish(topic, b"body", at=datetime.now(UTC) + YEAR)
        await until(lambda: scraper()("delays_messages_waiting") == 4)
        shown = scraper()
        labels = ("a", "b", "c", "d", "(other)")
        assert [shown("delays_messages_waiting", topic=topic) for topic in labels] == [1, 1, 0, 0, 2]
