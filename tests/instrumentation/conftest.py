"""A registry with a collector for each test, and what it shows."""

import pytest
from prometheus_client import CollectorRegistry

from nsq_anyio.instrumentation.prometheus import NSQCollector

from .scraping import Scraper


@pytest.fixture
def scraper() -> Scraper:
    """A collector of its own."""
    registry = CollectorRegistry()
    return Scraper(registry, NSQCollector(registry))
