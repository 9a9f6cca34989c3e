"""The watch: one poll for all viewers, and history that is there when they see a view."""

from __future__ import annotations

import anyio
import pytest

from nsq_anyio.errors import InvalidOption
from nsq_anyio.monitoring import Watch

from ..http.fake_cluster import FakeCluster, lookupd, nsqd, topic

pytestmark = pytest.mark.anyio


async def test_viewers_share_views_and_find_them_in_the_history() -> None:
    fake = FakeCluster({"l1": lookupd("n1"), "n1": nsqd("n1", topic("t", message_count=5, depth=5))})
    async with fake.cluster(["l1"]) as cluster:
        async with Watch(cluster, interval=0.02) as watch:
            assert watch.last is None
            with anyio.fail_after(5):
                view = await watch.after(None)
                assert (view.number, view.topics[0].total.topic_name) == (1, "t")
                assert watch.history.series("t").values["depth"][-1] == 5
                assert (await watch.after(view)).number > 1


async def test_options_are_checked() -> None:
    fake = FakeCluster({"l1": lookupd()})
    async with fake.cluster(["l1"]) as cluster:
        with pytest.raises(InvalidOption, match="span"):
            Watch(cluster, history=1.0)
