"""The embedded nsqd.

::

    server            `nsqd`: listens, and connects the parts
    nsqd_connection   moves the bytes of a client, with output; upgrade and server_tls add TLS and compression
    nsqd_client       executes a client's commands, with negotiation (IDENTIFY) and auth (AUTH)
    heartbeats        disconnects a client that is silent
    broker            the topics; a topic copies each message to its channels
    channel           distributes its messages to clients, in the task of scheduler, which fires timers too
    persistence       restores and stores messages, with a data path
    nsqd_http         the HTTP API, with nsqd_stats, nsqd_config, and latencies (by quantiles)
    lookup_peer       registers topics and channels with nsqlookupds
    statsd            sends statistics

`auth_http`, `nsqd_http`, `nsqd_config`, `persistence`, `server_tls`, `statsd` and `upgrade` are imported on
first use, because they import httpx, h11, TLS, or the codecs.
"""

from __future__ import annotations

from .server import EmbeddedNsqd, nsqd

__all__ = ["EmbeddedNsqd", "nsqd"]
