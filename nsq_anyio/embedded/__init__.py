"""nsqd and nsqlookupd inside this process, for development and tests.

::

    async with nsq.embedded.nsqd() as nsqd:
        async with nsq.produce(nsqd=nsqd.tcp_address) as producer:
            await producer.publish("clicks", b"body")
"""

from __future__ import annotations

from ..serving.listener import ListenFailed
from .data_path.disk import DataPathUnusable
from .nsqd import EmbeddedNsqd, nsqd
from .nsqd.auth import Authorization, AuthRequest, AuthState
from .nsqd.nsqd_options import NsqdOptions
from .nsqd.topic import Topic
from .nsqlookupd import EmbeddedNsqlookupd, NsqlookupdOptions, nsqlookupd

__all__ = [
    "AuthRequest",
    "AuthState",
    "Authorization",
    "DataPathUnusable",
    "EmbeddedNsqd",
    "EmbeddedNsqlookupd",
    "ListenFailed",
    "NsqdOptions",
    "NsqlookupdOptions",
    "Topic",
    "nsqd",
    "nsqlookupd",
]
