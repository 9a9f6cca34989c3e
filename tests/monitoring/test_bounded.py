"""An hour of polls in which topics and nsqds come and go leaves nothing behind."""

from __future__ import annotations

import gc
import logging
from collections import Counter
from typing import Any

import pytest

from nsq_anyio.monitoring import Watch

from .. import virtual_time
from ..http.fake_cluster import FakeCluster, channel, lookupd, nsqd, topic

pytestmark = pytest.mark.anyio

anyio_backend = virtual_time.anyio_backend

HOUR = 3600.0
MINUTE = 60.0
INTERVAL = 5.0
HOSTS = 3


def answers(hour: int) -> dict[str, dict[str, Any]]:
    """A cluster whose names and counters are others each time."""
    hosts = [f"n{hour % 7 + number}" for number in range(HOSTS)]
    topics = [
        topic(f"topic-{hour}-{number}", [channel(f"channel-{hour}")], message_count=hour)
        for number in range(3)
    ]
    return {"l1": lookupd(*hosts), **{host: nsqd(host, *topics, topic("lasting")) for host in hosts}}


def counted() -> Counter[str]:
    """How many objects of the package there are, by class."""
    gc.collect()
    kinds: list[type[object]] = [type(each) for each in gc.get_objects()]
    return Counter(kind.__name__ for kind in kinds if str(kind.__module__).startswith("nsq_anyio"))


async def test_what_is_kept_does_not_grow(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    fake = FakeCluster(answers(0))
    async with fake.cluster(["l1"]) as cluster:
        async with Watch(cluster, interval=INTERVAL, history=MINUTE, most_series=100) as watch:
            found: list[Counter[str]] = []
            series: list[int] = []
            view = None
            for number in range(int(HOUR / INTERVAL)):
                fake.answers = answers(number)
                view = await watch.after(view)
                fake.asked.clear()
                fake.requests.clear()
                if number % 120 == 119:
                    found.append(counted())
                    series.append(len(watch.history))
    assert view is not None
    assert view.number >= HOUR / INTERVAL
    # Within the first minutes all nsqds have been there once. One object more a poll would be 480 at the end.
    settled = found[1]
    for later in found[2:]:
        assert {name: count for name, count in later.items() if count > settled[name] + 100} == {}
    assert max(series) <= 101  # with the cluster's own
