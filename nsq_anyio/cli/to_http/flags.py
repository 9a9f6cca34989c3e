"""The flags of ``nsq-anyio to-http``, for the click command and its implementation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ..command import command_flags
from ..flags.connection import ConsumerFlags, connection_flags
from ..flags.fields import Flags, flag, shared
from ..flags.http import http_tls_flags
from ..flags.kinds import Integer, Number, duration
from ..flags.names import complete_channel, complete_topic
from ..flags.source import Source, source_flags

if TYPE_CHECKING:
    from ...options import TLSOptions

MODES = ("hostpool", "round-robin", "epsilon-greedy", "least-outstanding", "all")
"""How to choose an endpoint for a message."""
CONTENT_TYPE = "application/octet-stream"


class ToHttpFlags(Flags):
    """The flags of ``nsq-anyio to-http``."""

    topic: str = flag("The topic to consume.", required=True, shell_complete=complete_topic)
    channel: str = flag(
        "The channel to consume from.", shell_complete=complete_channel, default="nsq_to_http"
    )
    post: Sequence[str] = flag(
        "A URL to POST messages to, as the body; repeatable.", multiple=True, metavar="URL"
    )
    get: Sequence[str] = flag(
        "A URL to GET with the message, escaped, in place of its one %s; repeatable.",
        multiple=True,
        metavar="URL",
    )
    mode: str = flag(
        "How to choose among several addresses: in turn, skipping those that fail (hostpool); in turn; "
        "mostly the fastest; the one with the fewest requests outstanding; or all of them.",
        type=click.Choice(MODES),
        default="hostpool",
    )
    on_status: Sequence[str] = flag(
        "The action for a status such as 404 or 4xx: finish (delivered), discard (cannot be delivered), "
        "requeue (try again later), or backoff (try again later, and slow down). Repeatable. Without a rule, "
        "2xx is finish and any other status is backoff.",
        multiple=True,
        metavar="STATUS=ACTION",
    )
    n: int = flag("The most requests to run at once.", "-n", "--n", type=Integer(min=1), default=100)
    sample: float = flag(
        "The fraction of the messages to send; the others are finished.", type=Number(0, 1), default=1.0
    )
    header: Sequence[str] = flag(
        "A header to send with each request; repeatable.", multiple=True, metavar="NAME:VALUE"
    )
    content_type: str = flag("The Content-Type of each POST.", default=CONTENT_TYPE)
    http_client_connect_timeout: float = flag("The timeout to connect.", type=duration, default="2s")
    http_client_request_timeout: float = flag("The timeout of a whole request.", type=duration, default="20s")
    status_every: int = flag(
        "Log the times of requests after this many successes; 0: never.", type=Integer(min=0), default=250
    )
    http_tls: TLSOptions = shared(http_tls_flags)
    source: Source = shared(source_flags)
    consumer: ConsumerFlags = shared(connection_flags("consumer"))
    backend: str = shared(command_flags)
