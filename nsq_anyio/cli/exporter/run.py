"""The work of ``nsq-anyio exporter``."""

from __future__ import annotations

import logging
from contextlib import AsyncExitStack

from ...address import Address, ListenAddress
from ...instrumentation.prometheus import ClusterCollector, ClusterLabels, Exposition
from ...monitoring import Poller
from ...re2_pattern import Pattern
from ...serving.http_server import serve_http
from ...serving.listener import local_port, open_listener
from ...tasks import background_tasks
from ..flags.cluster import ClusterFlags
from .endpoint import Endpoint

_log = logging.getLogger(__name__)


class Exporter:
    """Polls a cluster, and serves its metrics.

    :param flags: the cluster
    :param address: where to listen
    :param interval: seconds between polls
    :param forget_after: as for `Poller`
    :param topic_pattern: matches in the names of the topics to export; None for all
    :param exclude_topic_pattern: matches in the names of the topics to leave out; None for none
    :param ephemeral: as for `ClusterLabels`, like the next three
    """

    def __init__(
        self,
        flags: ClusterFlags,
        address: ListenAddress,
        *,
        interval: float,
        forget_after: float,
        topic_pattern: Pattern | None,
        exclude_topic_pattern: Pattern | None,
        ephemeral: bool,
        by_nsqd: bool,
        clients: bool,
        max_channels: int,
    ) -> None:
        self._flags = flags
        self._address = address
        self._interval = interval
        self._forget_after = forget_after

        def is_exported(topic: str) -> bool:
            return (topic_pattern is None or topic_pattern.is_in(topic)) and not (
                exclude_topic_pattern is not None and exclude_topic_pattern.is_in(topic)
            )

        self._labels = ClusterLabels(
            topics=is_exported,
            ephemeral=ephemeral,
            by_nsqd=by_nsqd,
            clients=clients,
            max_channels=max_channels,
        )

    async def start(self, servers: AsyncExitStack) -> None:
        """Begin to poll and to listen, until the stack is closed.

        :raises InvalidOption: for a value out of range
        :raises ListenFailed: if the address cannot be listened on
        """
        listener = await servers.enter_async_context(await open_listener(*self._address))
        cluster = await servers.enter_async_context(self._flags.open())
        poller = await servers.enter_async_context(
            Poller(
                cluster,
                interval=self._interval,
                forget_after=self._forget_after,
                include_clients=self._labels.clients,
            )
        )
        exposition = Exposition(poller, ClusterCollector(poller, labels=self._labels))
        tasks = await servers.enter_async_context(background_tasks())
        tasks.start_soon(serve_http, listener, Endpoint(poller, exposition).answer)
        _log.info("HTTP: listening on %s", Address(self._address.host, local_port(listener)))
