"""The answers of nsqds and nsqlookupds 1.3.0, with counters that go on."""

from __future__ import annotations

import json
import random
import zlib
from dataclasses import dataclass
from typing import Any

from ...http.samples import CHANNEL, CLIENT, INFO, PRODUCER, STATS, TOPIC

_NOT_MEASURED = {"count": 0, "percentiles": None}
_START = 1795223855


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """What there is.

    :ivar nsqds: how many
    :ivar topics: how many, in the whole cluster
    :ivar spread: on how many nsqds each topic is
    :ivar channels: of each topic
    :ivar clients: connections to each nsqd
    :ivar active: the share of the topics in which something happens all the time, 0 to 1, on each nsqd
    """

    nsqds: int = 80
    topics: int = 1000
    spread: int = 80
    channels: int = 2
    clients: int = 600
    active: float = 0.1

    def topics_of(self, nsqd: int) -> list[str]:
        """Return the topics of an nsqd, by its number from 0, sorted."""
        step = self.nsqds / self.spread
        return [
            f"service.{topic:04d}.events"
            for topic in range(self.topics)
            if any((topic + round(place * step)) % self.nsqds == nsqd for place in range(self.spread))
        ]

    def is_active(self, topic: str) -> bool:
        """Return whether something happens in a topic."""
        return zlib.crc32(topic.encode()) % 1000 < 1000 * self.active


class NsqdAnswers:
    """The answers of one nsqd."""

    def __init__(self, cluster: Cluster, number: int) -> None:
        self._cluster = cluster
        self._random = random.Random(number)
        self._topics = [self._topic(name) for name in cluster.topics_of(number)]
        self._texts = [_text(topic) for topic in self._topics]
        self._clients = [
            {
                **CLIENT,
                "client_id": f"worker-{index}",
                "remote_address": f"10.0.{index // 250}.{index % 250}:4000",
            }
            for index in range(cluster.clients)
        ]
        self._changed: set[int] = set()

    def info(self, port: int) -> bytes:
        """Return the answer of ``/info``."""
        own = {"broadcast_address": "127.0.0.1", "hostname": f"nsqd-{port}", "http_port": port}
        return _text({**INFO, **own, "tcp_port": port, "start_time": _START})

    def stats(self) -> bytes:
        """Return the next answer of ``/stats`` without clients."""
        return self._whole(self._texts)

    def stats_of(self, topic: str, channel: str = "", *, with_clients: bool) -> bytes:
        """Return the answer of ``/stats`` for one topic and one channel, or all of those that are empty."""
        found = [each for each in self._topics if topic in ("", each["topic_name"])]
        if channel:
            kept = ([own for own in each["channels"] if own["channel_name"] == channel] for each in found)
            found = [{**each, "channels": own} for each, own in zip(found, kept, strict=True) if own]
        share = max(len(self._clients) // max(len(found) * self._cluster.channels, 1), 1)
        clients = self._clients[:share] if with_clients else None
        channels = ([{**channel, "clients": clients} for channel in each["channels"]] for each in found)
        return self._whole(
            [_text({**each, "channels": list(those)}) for each, those in zip(found, channels, strict=True)]
        )

    def go_on(self) -> None:
        """Let something happen."""
        for index, topic in enumerate(self._topics):
            if not self._cluster.is_active(topic["topic_name"]):
                continue
            messages = self._random.randrange(1, 500)
            topic["message_count"] += messages
            topic["message_bytes"] += messages * 300
            for channel in topic["channels"]:
                channel["message_count"] += messages
                channel["depth"] = self._random.randrange(2000)
                channel["in_flight_count"] = self._random.randrange(200)
            self._texts[index] = _text(topic)

    def _topic(self, name: str) -> dict[str, Any]:
        channels = [
            {
                **CHANNEL,
                "channel_name": f"consumer-{number}",
                "message_count": self._random.randrange(10**9),
                "client_count": 6,
                "clients": None,
                "paused": False,
                "e2e_processing_latency": _NOT_MEASURED,
            }
            for number in range(self._cluster.channels)
        ]
        messages = self._random.randrange(10**9)
        counts = {"message_count": messages, "message_bytes": 300 * messages, "depth": 0, "backend_depth": 0}
        return {**TOPIC, "topic_name": name, "channels": channels, **counts}

    def _whole(self, topics: list[bytes]) -> bytes:
        around = _text({**STATS, "start_time": _START, "topics": [], "memory": None, "producers": []})
        return around.replace(b'"topics":[]', b'"topics":[%s]' % b",".join(topics))


def lookup_answers(cluster: Cluster, ports: list[int]) -> dict[str, bytes]:
    """Return the answers of an nsqlookupd that knows all nsqds, in no order, as nsqlookupd does.

    :param ports: the HTTP ports of the nsqds
    """
    producers: list[dict[str, Any]] = []
    everywhere: set[str] = set()
    for number, port in enumerate(ports):
        topics = cluster.topics_of(number)
        everywhere.update(topics)
        random.shuffle(topics)
        own = {
            "broadcast_address": "127.0.0.1",
            "hostname": f"nsqd-{port}",
            "http_port": port,
            "tcp_port": port,
        }
        producers.append({**PRODUCER, **own, "topics": topics, "tombstones": [False] * len(topics)})
    random.shuffle(producers)
    return {"/nodes": _text({"producers": producers}), "/topics": _text({"topics": list(everywhere)})}


def _text(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
