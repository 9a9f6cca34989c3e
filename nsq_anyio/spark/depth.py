"""What waits in a channel, asked of all nsqds that have its topic."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from typing import TypeVar

import anyio

from ..errors import HTTPStatusError, InvalidAddress
from ..http import Authorization, ClusterFailed, Lookup, Nsqd, Nsqlookupd
from ..http.fan_out import Answers, FanOut
from ..names import is_ephemeral
from .access import Access
from .options import ReadOptions
from .plan import Depth

__all__ = ["Depth", "depths", "nsqlookupd_clients"]

T = TypeVar("T")

_CONCURRENCY = 16
_TOPIC_NOT_FOUND = "TOPIC_NOT_FOUND"

_log = logging.getLogger("nsq_anyio.spark")


def depths(options: ReadOptions) -> list[Depth]:
    """Ask how many messages wait in the channel, at each nsqd.

    A channel that does not exist is created, so that it gets all that is published from then on; what the
    topic has kept until then counts. A paused channel delivers nothing, so it counts as empty. An nsqd that
    does not answer is logged and counts as empty, unless none answers.

    It runs an event loop of its own, so it cannot be called from a coroutine.

    :raises InvalidOption: if a file of the options cannot be used
    :raises ClusterFailed: if no nsqlookupd, or no nsqd, answers; it names them
    """
    return anyio.run(_depths, options)


async def _depths(options: ReadOptions) -> list[Depth]:
    context = options.ssl_context() if options.https_urls else None
    timeout = options.http_timeout
    if options.nsqds:
        clients = {
            nsqd: Nsqd(url, timeout=timeout, ssl_context=context)
            for nsqd, url in zip(options.nsqds, options.nsqd_http, strict=True)
        }
    else:
        # Anybody can register at an nsqlookupd, so certificates do not go where it sends us.
        clients = {nsqd: Nsqd(url, timeout=timeout) for nsqd, url in (await _found(options)).items()}
    fan_out = FanOut(timeout, _CONCURRENCY)
    answers = await fan_out.ask({client.url: partial(_rows, client, options) for client in clients.values()})
    _check(answers, "nsqd")
    return [Depth(nsqd, answers.values.get(client.url, 0)) for nsqd, client in clients.items()]


async def _rows(nsqd: Nsqd, options: ReadOptions) -> int:
    """How many messages wait at one nsqd."""
    topic, channel = options.topic, options.channel
    async with nsqd:
        stats = await nsqd.stats(topic=topic, include_clients=False, include_mem=False)
        of_topic = next((row for row in stats.topics if row.topic_name == topic), None)
        if of_topic is None:
            if not options.nsqds:
                return 0  # nsqlookupd has not heard yet that the topic is gone there
            await nsqd.create_topic(topic)
            await nsqd.create_channel(topic, channel)
            return 0
        for row in of_topic.channels:
            if row.channel_name == channel:
                return 0 if row.paused else row.depth
        await nsqd.create_channel(topic, channel)
        return 0 if of_topic.paused else of_topic.depth


async def _found(options: ReadOptions) -> dict[str, str]:
    """The URLs of the nsqds that have the topic, by their TCP addresses, as nsqlookupds tell them."""
    clients = nsqlookupd_clients(options)
    fan_out = FanOut(options.http_timeout, _CONCURRENCY)
    answers = await fan_out.ask({client.url: partial(_look_up, client, options) for client in clients})
    _check(answers, "nsqlookupd")
    found: dict[str, str] = {}
    for url, lookup in answers.values.items():
        for producer in lookup.producers:
            try:
                found[str(producer.address)] = producer.http_url
            except InvalidAddress as error:
                _log.warning("nsqlookupd %s names an nsqd that cannot be asked: %s", url, error)
    return dict(sorted(found.items()))


async def _look_up(nsqlookupd: Nsqlookupd, options: ReadOptions) -> Lookup:
    topic, channel = options.topic, options.channel
    async with nsqlookupd:
        try:
            lookup = await nsqlookupd.lookup(topic)
        except HTTPStatusError as error:
            if error.code != _TOPIC_NOT_FOUND:
                raise
            lookup = Lookup(channels=(), producers=())
        if channel not in lookup.channels and not is_ephemeral(channel):
            # An nsqd that gets the topic later asks for its channels, and creates them before the first
            # message is in it; ephemeral ones it leaves out.
            await nsqlookupd.create_channel(topic, channel)
        return lookup


def nsqlookupd_clients(access: Access) -> list[Nsqlookupd]:
    """Return a client, not yet opened, for each nsqlookupd of the options.

    :raises InvalidOption: if a file of the options cannot be used
    """
    context = access.ssl_context() if access.https_urls else None
    secret = access.secret() if access.lookupd_authorization else None
    return [
        Nsqlookupd(
            url,
            timeout=access.http_timeout,
            ssl_context=context,
            authorization=None if secret is None else _bearer(secret),
        )
        for url in access.nsqlookupds
    ]


def _bearer(secret: str) -> Authorization:
    # A function, so that no error and no repr of the client can show it.
    return lambda: f"Bearer {secret}"


def _check(answers: Answers[T], kind: str) -> None:
    """Log who did not answer; that one of several is down must not stop the others' messages."""
    failures: Mapping[str, Exception] = answers.failures
    if failures and not answers.values:
        raise ClusterFailed(tuple(failures), f"no {kind} answered", tuple(answers.failures.values()))
    for error in failures.values():
        _log.warning("%s counts as empty: it did not answer: %s", kind, error)
