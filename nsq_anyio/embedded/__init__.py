"""nsqd and nsqlookupd inside this process, for development and tests.

::

    async with nsq.embedded.nsqd() as nsqd:
        async with nsq.produce(nsqd=nsqd.tcp_address) as producer:
            await producer.publish("clicks", b"body")
"""

from __future__ import annotations

from ..serving.listener import ListenFailed
from .authorization import Authorization, AuthRequest, AuthState
from .nsqd import EmbeddedNsqd, nsqd
from .nsqd_options import NsqdOptions
from .nsqlookupd import EmbeddedNsqlookupd, NsqlookupdOptions, nsqlookupd
from .storage.data_path import DataPathUnusable

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
    "nsqd",
    "nsqlookupd",
]
