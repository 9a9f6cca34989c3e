"""The discovery of a consumer's nsqds; loaded only with nsqlookupds, because httpx takes long to import."""

from __future__ import annotations

from collections.abc import Sequence

from ..discovery import Discovery
from ..discovery.discovery import LookupOptions
from ..errors import HTTPStatusError
from ..events import Emitter, TopicUnknown
from ..http import Nsqlookupd
from ..http.models import Producer
from ..options import AuthSecret


class TopicDiscovery(Discovery):
    """Polls nsqlookupds for one topic."""

    def __init__(
        self,
        topic: str,
        urls: Sequence[str],
        *,
        options: LookupOptions,
        emit: Emitter,
        auth_secret: AuthSecret | None = None,
    ) -> None:
        super().__init__(urls, options=options, emit=emit, auth_secret=auth_secret)
        self._topic = topic

    async def _ask(self, lookupd: Nsqlookupd) -> Sequence[Producer]:
        try:
            return (await lookupd.lookup(self._topic)).producers
        except HTTPStatusError as error:
            if error.code != "TOPIC_NOT_FOUND":
                raise
            return ()  # nothing has been published to the topic yet

    def _missed(self, retry_in: float, *, was_found: bool) -> TopicUnknown:
        return TopicUnknown(retry_in, was_found, **self._emit.source)
