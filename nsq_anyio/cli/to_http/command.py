"""``nsq-anyio to-http``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from ..command import UtilityCommand, command_flags
from ..flags.connection import ConsumerFlags, connection_flags
from ..flags.http import http_tls_flags, parse_header
from ..flags.kinds import Integer, Number, duration
from ..flags.names import complete_channel, complete_topic
from ..flags.source import Source, source_flags

if TYPE_CHECKING:
    import httpx

    from ...options import TLSOptions
    from .endpoint import Endpoint

MODES = ("hostpool", "round-robin", "epsilon-greedy", "least-outstanding", "all")
"""How to choose an endpoint for a message."""

_CONTENT_TYPE = "application/octet-stream"


@click.command(
    "to-http",
    cls=UtilityCommand,
    epilog="\b\nExample:\n  nsq-anyio to-http --topic=clicks --lookupd-http-address=127.0.0.1:4161 \\\n"
    "      --post=http://127.0.0.1:8080/clicks --on-status=4xx=discard",
)
@click.option("--topic", required=True, shell_complete=complete_topic, help="The topic to consume.")
@click.option(
    "--channel",
    shell_complete=complete_channel,
    default="nsq_to_http",
    show_default=True,
    help="The channel to consume from.",
)
@click.option(
    "--post",
    multiple=True,
    metavar="URL",
    help="A URL to POST messages to, as the body; repeatable.",
)
@click.option(
    "--get",
    multiple=True,
    metavar="URL",
    help="A URL to GET with the message, escaped, in place of its one %s; repeatable.",
)
@click.option(
    "--mode",
    type=click.Choice(MODES),
    default="hostpool",
    show_default=True,
    help="How to choose among several addresses: in turn, skipping those that fail (hostpool); in turn; "
    "mostly the fastest; the one with the fewest requests outstanding; or all of them.",
)
@click.option(
    "--on-status",
    multiple=True,
    metavar="STATUS=ACTION",
    help="The action for a status such as 404 or 4xx: finish (delivered), discard (cannot be delivered), "
    "requeue (try again later), or backoff (try again later, and slow down). Repeatable. Without a rule, 2xx "
    "is finish and any other status is backoff.",
)
@click.option(
    "-n",
    "--n",
    type=Integer(min=1),
    default=100,
    show_default=True,
    help="The most requests to run at once.",
)
@click.option(
    "--sample",
    type=Number(0, 1),
    default=1.0,
    show_default=True,
    help="The fraction of the messages to send; the others are finished.",
)
@click.option(
    "--header", multiple=True, metavar="NAME:VALUE", help="A header to send with each request; repeatable."
)
@click.option(
    "--content-type", default=_CONTENT_TYPE, show_default=True, help="The Content-Type of each POST."
)
@click.option(
    "--http-client-connect-timeout",
    type=duration,
    default="2s",
    show_default=True,
    metavar="DURATION",
    help="The timeout to connect.",
)
@click.option(
    "--http-client-request-timeout",
    type=duration,
    default="20s",
    show_default=True,
    metavar="DURATION",
    help="The timeout of a whole request.",
)
@click.option(
    "--status-every",
    type=Integer(min=0),
    default=250,
    show_default=True,
    help="Log the times of requests after this many successes; 0: never.",
)
@http_tls_flags
@source_flags
@connection_flags("consumer")
@command_flags
def to_http(
    source: Source,
    consumer: ConsumerFlags,
    backend: str,
    topic: str,
    channel: str,
    post: Sequence[str],
    get: Sequence[str],
    mode: str,
    on_status: Sequence[str],
    n: int,
    sample: float,
    header: Sequence[str],
    content_type: str,
    http_client_connect_timeout: float,
    http_client_request_timeout: float,
    http_tls: TLSOptions,
    status_every: int,
) -> None:
    """Send the messages of a topic to HTTP servers.

    A message is finished once a server has accepted it. A message that cannot be delivered is retried for as
    long as it takes; --consumer-opt=max_attempts,5 gives up after 5 attempts.
    """
    from ...names import check_channel, check_topic
    from ..event_loop import run_draining
    from .run import ToHttp
    from .status_policy import StatusPolicy

    job = ToHttp(
        source=source,
        topic=check_topic(topic),
        channel=check_channel(channel),
        concurrency=n,
        endpoints=_endpoints(post, get),
        mode=mode,
        policy=StatusPolicy.parse(on_status),
        sample=sample,
        headers=_headers(header, content_type, is_post=bool(post)),
        http_tls=http_tls,
        connect_timeout=http_client_connect_timeout,
        request_timeout=http_client_request_timeout,
        status_every=status_every,
        consumer=consumer.never_giving_up(),
    )
    run_draining(job.run, backend)


def _endpoints(post: Sequence[str], get: Sequence[str]) -> list[Endpoint]:
    from .endpoint import get_endpoint, post_endpoint

    if bool(post) == bool(get):
        given = "both" if post else "neither"
        raise click.UsageError(f"{given} of --post and --get given: use one of them, as often as needed")
    return [*map(post_endpoint, post), *map(get_endpoint, get)]


def _headers(given: Sequence[str], content_type: str, *, is_post: bool) -> httpx.Headers:
    import httpx

    from ...options import default_user_agent

    if content_type != _CONTENT_TYPE and not is_post:
        raise click.UsageError("--content-type has no effect with --get: use --post, or leave it out")
    headers = httpx.Headers({"User-Agent": default_user_agent()})
    if is_post:
        headers.update([parse_header(f"Content-Type: {content_type}")])
    headers.update([parse_header(text) for text in given])
    return headers
