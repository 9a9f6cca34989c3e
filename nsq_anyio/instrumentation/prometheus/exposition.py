"""The text of a scrape, in the format that the scraper asks for."""

from __future__ import annotations

import gzip
import sys
from functools import partial

import anyio.to_thread
from prometheus_client.exposition import choose_encoder

from ...monitoring import Poller
from ...serving.single_flight import SingleFlight
from .cluster_collector import ClusterCollector

_FASTEST = 1


class Exposition:
    """Writes the metrics of a poller, once for each poll, however many scrapers ask.

    :param collector: collects the metrics of ``poller``
    """

    def __init__(self, poller: Poller, collector: ClusterCollector) -> None:
        self._poller = poller
        self._collector = collector
        self._texts = SingleFlight[bytes](len, sys.maxsize)

    async def text(self, accept: str = "", *, gzipped: bool = False) -> tuple[bytes, str]:
        """Return the metrics of the last poll, and their content type. A thread writes them.

        :param accept: the header ``Accept`` of the scraper, which may ask for OpenMetrics
        :param gzipped: whether to compress the text
        """
        encode, content_type = choose_encoder(accept)

        def write() -> bytes:
            text = bytes(encode(self._collector))
            return gzip.compress(text, _FASTEST, mtime=0) if gzipped else text

        number = 0 if self._poller.last is None else self._poller.last.number
        # The thread is abandoned, so that a command that ends does not wait for a long text.
        run = partial(anyio.to_thread.run_sync, write, abandon_on_cancel=True)
        return await self._texts.get(number, (content_type, gzipped), run), content_type
