"""``/metrics``: the cluster in Prometheus' format, from the views that the pages show."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING

from ..monitoring import Poller
from ..serving.compression import accepts_gzip
from ..serving.http_messages import Request, Response
from ..serving.nsq_api import Refusal, arguments, error_response, plain_response
from .access import Access

if TYPE_CHECKING:
    from ..instrumentation.prometheus import Exposition


class Metrics:
    """Answers ``/metrics``, with the metrics of ``nsq-anyio exporter``.

    Topics and channels have series for each nsqd, up to the exporter's default limit; with ``?nsqds=sum``,
    sums over all nsqds.

    :param base: the path below which it is, without a slash at its end
    :param poller: what polls the cluster
    """

    def __init__(self, base: str, access: Access, poller: Poller) -> None:
        self._path = f"{base}/metrics"
        self._access = access
        self._missing = ""
        self._expositions: dict[str, Exposition] = {}
        try:
            from ..instrumentation.prometheus import (  # noqa: PLC0415 - needs the extra
                ClusterCollector,
                ClusterLabels,
                Exposition,
            )
        except ImportError as error:
            self._missing = str(error)
            return
        for name, labels in (("", ClusterLabels()), ("sum", ClusterLabels(by_nsqd=False))):
            self._expositions[name] = Exposition(poller, ClusterCollector(poller, labels=labels))

    async def __call__(self, request: Request) -> Response | None:
        """Answer a request; return None if its path is another's."""
        if request.target.path != self._path or request.method not in ("GET", "HEAD"):
            return None
        try:
            self._access.check_host(request)
            exposition = self._exposition(arguments(request).optional("nsqds"))
        except Refusal as refusal:
            return error_response(refusal.status, refusal.code)
        if exposition is None:
            return plain_response(f"{self._missing}\n", HTTPStatus.NOT_IMPLEMENTED)
        gzipped = accepts_gzip(request.headers.get("accept-encoding", ""))
        text, content_type = await exposition.text(request.headers.get("accept", ""), gzipped=gzipped)
        headers = [("Content-Type", content_type), ("Vary", "Accept, Accept-Encoding")]
        if gzipped:
            headers.append(("Content-Encoding", "gzip"))
        return Response(HTTPStatus.OK, text, tuple(headers))

    def _exposition(self, nsqds: str) -> Exposition | None:
        """Return what writes the text; None without the extra.

        :raises Refusal: 400 ``INVALID_ARG_NSQDS`` for what is neither empty nor ``sum``
        """
        if self._missing:
            return None
        if nsqds not in self._expositions:
            raise Refusal(HTTPStatus.BAD_REQUEST, "INVALID_ARG_NSQDS")
        return self._expositions[nsqds]
