"""The depth of the channel at each nsqd that has the topic.

Asking also creates the channel where it is missing, and logs the nsqds where it is paused. Executors do not
import this module, because httpx takes long to import.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Self, TypeVar

from ..errors import HTTPStatusError, InvalidOption
from ..http import ClusterFailed, Lookup, Nsqd, Nsqlookupd
from ..http.servers import Answers, FanOut
from ..http.stats import ChannelStats, TopicStats
from .nsqlookupds import nsqlookupd_clients, of_reachable
from .options import ReadOptions
from .plan import Depth

T = TypeVar("T")

_CONCURRENCY = 16

PATIENCE = 300.0
"""Seconds for which all nsqds, or all nsqlookupds, of a running query may be silent."""

_TRY_EVERY = 1.0

_log = logging.getLogger("nsq_anyio.spark")


_TOPIC_NOT_FOUND = "TOPIC_NOT_FOUND"

_CHANNEL_IS_NEW = (
    "channel %s of topic %s is new at %s: it gets no message that other channels have got before"
)


class DepthClient:
    """Asks for the depth of a channel repeatedly, over connections that stay open.

    It runs its own event loop, so it cannot be used in a coroutine. It is pickled without its connections.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._silent: set[str] = set()
        self._watch = ChannelWatch(options)
        self._is_created_everywhere = options.create_channel != "everywhere"
        self._answered: set[str] = set()
        self._silent_since: dict[str, float] = {}
        self._last_found: dict[str, str] = {}
        self._forget()

    def _forget(self) -> None:
        self._runner: asyncio.Runner | None = None
        self._nsqlookupds: list[Nsqlookupd] | None = None
        self._nsqds: dict[str, Nsqd] = {}  # by their URLs

    def __reduce__(self) -> tuple[type[DepthClient], tuple[ReadOptions]]:
        return DepthClient, (self._options,)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def ask(self) -> list[Depth]:
        """Return the depth of the channel at each nsqd.

        A missing channel is created, so that it gets all later messages; the messages that wait in the topic
        are counted. A paused channel counts as empty, because it delivers nothing, and so does an nsqd that
        does not answer; both are logged. If no nsqd answers, this raises; but if one has answered before, all
        are first tried again for five minutes. While no nsqlookupd answers, the nsqds of the last answer are
        asked, for the same time.

        :raises InvalidOption: if a file that the options name cannot be used, or the channel must not be
            created and no nsqd has it
        :raises ClusterFailed: if no nsqlookupd, or no nsqd, answers; the error names them
        """
        if self._runner is None:
            self._runner = asyncio.Runner()
        while (depths := self._runner.run(self._ask())) is None:
            time.sleep(_TRY_EVERY)
        return depths

    def close(self) -> None:
        """Close the connections; the next `ask` opens new ones."""
        if self._runner is not None:
            self._runner.run(self._close())
            self._runner.close()
        self._forget()

    async def _close(self) -> None:
        for client in (*self._nsqds.values(), *(self._nsqlookupds or ())):
            await client.__aexit__(None, None, None)

    async def _ask(self) -> list[Depth] | None:
        """Return the depths; None if no nsqd answers now."""
        options = self._options
        if options.nsqds:
            urls = dict(zip(options.nsqds, options.nsqd_http, strict=True))
            context = options.ssl_context() if options.https_urls and not self._nsqds else None
        else:
            # Anybody can register with nsqlookupd, so the nsqds that it lists get no client certificate.
            urls, context = await self._found(), None
        for url in self._nsqds.keys() - urls.values():
            await self._nsqds.pop(url).__aexit__(None, None, None)
        for url in urls.values():
            if url not in self._nsqds:
                client = Nsqd(url, timeout=options.http_timeout, ssl_context=context)
                self._nsqds[url] = await client.__aenter__()
        clients = {nsqd: self._nsqds[url] for nsqd, url in urls.items()}
        fan_out = FanOut(options.http_timeout, _CONCURRENCY)
        calls = {client.url: partial(depth_at, nsqd, client, options) for nsqd, client in clients.items()}
        answers = await fan_out.ask(calls)
        if not self._check(answers, "nsqd"):
            return None
        self._watch.check(tuple(answers.values.values()))
        return [answers.values.get(client.url, Depth(nsqd, 0)) for nsqd, client in clients.items()]

    async def _found(self) -> dict[str, str]:
        """Ask the nsqlookupds for the nsqds with the topic; return their URLs by TCP address."""
        options = self._options
        if self._nsqlookupds is None:
            self._nsqlookupds = [await client.__aenter__() for client in nsqlookupd_clients(options)]
        if not self._is_created_everywhere:
            await self._create_everywhere(self._nsqlookupds)
        fan_out = FanOut(options.http_timeout, _CONCURRENCY)
        answers = await fan_out.ask(
            {client.url: partial(look_up, client, options) for client in self._nsqlookupds}
        )
        if not self._check(answers, "nsqlookupd"):
            return self._last_found
        found: dict[str, str] = {}
        for url, lookup in answers.values.items():
            found |= of_reachable(url, lookup.producers, lambda nsqd: (str(nsqd.address), nsqd.http_url))
        self._last_found = dict(sorted(found.items()))
        return self._last_found

    async def _create_everywhere(self, nsqlookupds: Sequence[Nsqlookupd]) -> None:
        """Create topic and channel on all nsqds of the cluster; nsqds that fail are tried again next time."""
        options = self._options
        fan_out = FanOut(options.http_timeout, _CONCURRENCY)
        nodes = await fan_out.ask({client.url: client.nodes for client in nsqlookupds})
        self._check(nodes, "nsqlookupd")
        urls: set[str] = set()
        for url, producers in nodes.values.items():
            urls.update(of_reachable(url, producers, lambda nsqd: nsqd.http_url))

        async def create(url: str) -> None:
            async with Nsqd(url, timeout=options.http_timeout) as nsqd:
                await create_at(nsqd, options)

        created = await fan_out.ask({url: partial(create, url) for url in sorted(urls)})
        for url, failure in created.failures.items():
            _log.warning("cannot create the channel at nsqd %s, and will try again: %s", url, failure)
        self._is_created_everywhere = not nodes.failures and not created.failures

    def _check(self, answers: Answers[T], kind: str) -> bool:
        """Log servers that have stopped answering; return False if all have.

        :raises ClusterFailed: if none has ever answered, or none for too long
        """
        failures: Mapping[str, Exception] = answers.failures
        if failures and not answers.values:
            reason = f"no {kind} answered"
            if self._options.nsqds:
                reason += " at nsqdHttp, which is by default the port after that of nsqd"
            error = ClusterFailed(tuple(failures), reason, tuple(answers.failures.values()))
            now = time.monotonic()
            if kind not in self._answered or now - self._silent_since.get(kind, now) > PATIENCE:
                raise error
            if kind not in self._silent_since:
                _log.warning("%s; trying again for %g s", error, PATIENCE)
                self._silent_since[kind] = now
            return False
        self._answered.add(kind)
        self._silent_since.pop(kind, None)
        self._silent -= answers.values.keys()
        for url in failures.keys() - self._silent:
            _log.warning("%s counts as empty until it answers: %s", kind, failures[url])
        self._silent |= failures.keys()
        return True


def channel_depths(options: ReadOptions) -> list[Depth]:
    """Ask each nsqd once for the depth of the channel."""
    with DepthClient(options) as client:
        return client.ask()


class ChannelWatch:
    """Logs that a channel is paused or missing, once when this begins and once when it ends."""

    def __init__(self, options: ReadOptions) -> None:
        self._topic = options.topic
        self._channel = options.channel
        self._logged: dict[str, str] = {}

    def check(self, depths: Sequence[Depth]) -> None:
        """Log the nsqds that deliver nothing because of the channel's state.

        :raises InvalidOption: if no nsqd has the channel, and ``createChannel=false``
        """
        if depths and all(depth.is_missing for depth in depths):
            raise InvalidOption(
                f"no nsqd has the channel {self._channel} of topic {self._topic}, and createChannel=false: "
                "create it before messages are published, or leave createChannel out"
            )
        now = {depth.nsqd: text for depth in depths if (text := self._text(depth))}
        for nsqd, text in now.items():
            if self._logged.get(nsqd) != text:
                _log.warning("nsqd %s: %s", nsqd, text)
        for nsqd in self._logged.keys() - now.keys():
            _log.warning("nsqd %s: topic %s and channel %s deliver again", nsqd, self._topic, self._channel)
        self._logged = now

    def _text(self, depth: Depth) -> str:
        if depth.is_missing:
            return f"it has topic {self._topic}, but not channel {self._channel}, and createChannel=false"
        if depth.paused:
            name = self._topic if depth.paused == "topic" else f"{self._channel} of topic {self._topic}"
            return f"{depth.paused} {name} is paused, so its messages wait until somebody unpauses it"
        return ""


async def depth_at(address: str, nsqd: Nsqd, options: ReadOptions) -> Depth:
    """Return the depth of the channel at one nsqd; create a missing channel unless ``createChannel=false``.

    This takes one request, unless the channel is missing.
    """
    topic, channel = options.topic, options.channel
    ask = partial(nsqd.stats, topic=topic, include_clients=False, include_mem=False)
    # Ask for this channel alone, because a topic may have hundreds. nsqd then omits a topic without it.
    topics = (await ask(channel=channel)).topics or (await ask()).topics
    of_topic = next((row for row in topics if row.topic_name == topic), None)
    creates = options.create_channel != "false"
    if of_topic is None:
        if not options.nsqds:
            return Depth(address, 0)  # it was deleted there, and nsqlookupd does not know yet
        if creates:
            await create_at(nsqd, options)
            _log.warning(_CHANNEL_IS_NEW, channel, topic, f"nsqd {address}")
        return Depth(address, 0, is_missing=not creates)
    found = next((row for row in of_topic.channels if row.channel_name == channel), None)
    if found is None and creates:
        await nsqd.create_channel(topic, channel)
        _log.warning(_CHANNEL_IS_NEW, channel, topic, f"nsqd {address}")
    return _depth(address, of_topic, found, is_missing=found is None and not creates)


def _depth(address: str, topic: TopicStats, channel: ChannelStats | None, *, is_missing: bool) -> Depth:
    # A new channel gets the messages that wait in the topic, unless the topic is paused.
    paused = "topic" if topic.paused else ""
    waiting, held = (0 if topic.paused or is_missing else topic.depth), 0
    if channel is not None:
        paused = "channel" if channel.paused else paused
        waiting = 0 if channel.paused else channel.depth
        held = channel.in_flight_count + channel.deferred_count
    return Depth(
        address,
        waiting,
        topic.message_bytes / topic.message_count if topic.message_count else None,
        paused=paused,
        held=held,
        published=topic.message_count,
        is_missing=is_missing,
    )


async def create_at(nsqd: Nsqd, options: ReadOptions) -> None:
    """Create the topic and the channel, unless they exist."""
    await nsqd.create_topic(options.topic)
    await nsqd.create_channel(options.topic, options.channel)


async def look_up(nsqlookupd: Nsqlookupd, options: ReadOptions) -> Lookup:
    """Ask which nsqds have the topic; unless ``createChannel=false``, register the channel."""
    topic, channel = options.topic, options.channel
    try:
        lookup = await nsqlookupd.lookup(topic)
    except HTTPStatusError as error:
        if error.code != _TOPIC_NOT_FOUND:
            raise
        lookup = Lookup(channels=(), producers=())
    if channel not in lookup.channels and options.create_channel != "false":
        # An nsqd that gets the topic later asks for its channels, and creates them before the first message.
        await nsqlookupd.create_channel(topic, channel)
        _log.warning(_CHANNEL_IS_NEW, channel, topic, f"nsqlookupd {nsqlookupd.url}")
    return lookup
