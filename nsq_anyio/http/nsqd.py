"""The HTTP API of nsqd."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, get_args

import httpx

from ..address import addresses
from ..errors import HTTPStatusError, InvalidBody, InvalidOption
from ..names import check_topic
from ..options.checks import check_integer, check_seconds
from ..protocol.codec import encode_bodies
from .client import Client, channel_parameters, stats_parameters, topic_parameters
from .models import NsqdInfo
from .reply import Fields
from .rereading import StatsReader
from .stats import Stats

LogLevel = Literal["debug", "info", "warn", "error", "fatal"]
_LOG_LEVELS: tuple[LogLevel, ...] = get_args(LogLevel)

Body = bytes | bytearray | memoryview

# nsqd computes nanoseconds in 64 bits, without a check: more would overflow to a shorter delay.
_MAX_DEFER = 9_223_372_036
_OPTION = re.compile(r"[a-z0-9_]{1,64}")


class Nsqd(Client):
    """The HTTP API of one nsqd, by default on port 4151.

    ::

        async with nsq.http.Nsqd("http://127.0.0.1:4151") as nsqd:
            await nsqd.publish("clicks", b"body")

    The parameters and the errors of every request are those of `Client`.
    """

    async def info(self) -> NsqdInfo:
        """Ask for the version, addresses and limits."""
        return await self._get("/info", NsqdInfo.read)

    async def stats(
        self,
        *,
        topic: str | None = None,
        channel: str | None = None,
        include_clients: bool = True,
        include_mem: bool = True,
    ) -> Stats:
        """Ask for the statistics of topics, channels, clients and memory.

        :param topic: only this topic; the reply has no topics if it does not exist
        :param channel: only this channel, and only the topics that have it
        :param include_clients: whether to list clients, which costs nsqd time when there are very many
        :param include_mem: whether to add memory statistics, for which nsqd stops all its work
        :raises InvalidName: for a name that nsqd would refuse
        """
        parameters = stats_parameters("json", topic, channel, include_clients, include_mem)
        return await self._get("/stats", Stats.read, parameters)

    async def stats_again(self, reader: StatsReader) -> Stats:
        """Ask for the statistics without clients and memory; ``reader`` has read the earlier answers."""
        parameters = stats_parameters("json", None, None, include_clients=False, include_mem=False)
        return await reader.read(await self._request("GET", "/stats", parameters))

    async def stats_text(
        self,
        *,
        topic: str | None = None,
        channel: str | None = None,
        include_clients: bool = True,
        include_mem: bool = True,
    ) -> str:
        """Ask for the same statistics as `stats`, as text for people."""
        parameters = stats_parameters("text", topic, channel, include_clients, include_mem)
        return (await self._request("GET", "/stats", parameters)).text()

    async def publish(self, topic: str, body: Body, *, defer: float | None = None) -> None:
        """Publish a message.

        :param defer: seconds until nsqd delivers it, 0 up to nsqd's ``--max-req-timeout`` (by default 3600)
        :raises InvalidName: for a topic that nsqd would refuse
        :raises InvalidBody: for a body that is empty or not bytes
        :raises InvalidOption: for a ``defer`` out of range
        :raises HTTPStatusError: ``MSG_TOO_BIG``, ``INVALID_DEFER``, ``EXITING``: the message was not stored
        :raises HTTPUnavailable: if no answer came: the message may be stored or not. A body that is far too
            large may also end like this, since nsqd closes the connection without reading it
        """
        parameters = topic_parameters(topic)
        if defer is not None:
            check_seconds("defer", defer, 0, _MAX_DEFER)
            parameters["defer"] = str(round(defer * 1000))
        await self._expect_ok("POST", "/pub", parameters, _check_body(body))

    async def publish_many(self, topic: str, bodies: Iterable[Body]) -> None:
        """Publish several messages, all or none.

        :raises InvalidName: for a topic that nsqd would refuse
        :raises InvalidBody: if there are no bodies, or for a body that is empty or not bytes
        :raises HTTPStatusError: ``BODY_TOO_BIG``, ``BAD_MESSAGE``, ``BAD_BODY``, ``EXITING``: none was stored
        :raises HTTPUnavailable: if no answer came: all may be stored or none
        """
        check_topic(topic)
        if isinstance(bodies, Body | str):
            raise InvalidBody(f"bodies are of type {type(bodies).__name__}: use a list of bytes")
        checked = [_check_body(body) for body in bodies]
        if not checked:
            raise InvalidBody("no bodies given: use 1 or more")
        # The text format would split bodies at line feeds.
        parameters = {"topic": topic, "binary": "true"}
        await self._expect_ok("POST", "/mpub", parameters, encode_bodies(checked))

    async def create_topic(self, topic: str) -> None:
        """Create a topic, unless it exists.

        :raises InvalidName: for a name that nsqd would refuse
        """
        await self._post("/topic/create", topic_parameters(topic))

    async def delete_topic(self, topic: str) -> None:
        """Delete a topic with its channels and messages, and disconnect their clients.

        :raises InvalidName: for a name that nsqd would refuse
        :raises HTTPStatusError: ``TOPIC_NOT_FOUND``
        """
        await self._post("/topic/delete", topic_parameters(topic))

    async def empty_topic(self, topic: str) -> None:
        """Drop the messages of a topic that no channel has taken yet.

        :raises InvalidName: for a name that nsqd would refuse
        :raises HTTPStatusError: ``TOPIC_NOT_FOUND``
        """
        await self._post("/topic/empty", topic_parameters(topic))

    async def pause_topic(self, topic: str) -> None:
        """Stop the flow of messages from a topic to its channels; the pause survives restarts of nsqd.

        :raises InvalidName: for a name that nsqd would refuse
        :raises HTTPStatusError: ``TOPIC_NOT_FOUND``
        """
        await self._post("/topic/pause", topic_parameters(topic))

    async def unpause_topic(self, topic: str) -> None:
        """Let the messages of a paused topic flow again.

        :raises InvalidName: for a name that nsqd would refuse
        :raises HTTPStatusError: ``TOPIC_NOT_FOUND``
        """
        await self._post("/topic/unpause", topic_parameters(topic))

    async def create_channel(self, topic: str, channel: str) -> None:
        """Create a channel of an existing topic, unless it exists.

        :raises InvalidName: for a name that nsqd would refuse
        :raises HTTPStatusError: ``TOPIC_NOT_FOUND``
        """
        await self._post("/channel/create", channel_parameters(topic, channel))

    async def delete_channel(self, topic: str, channel: str) -> None:
        """Delete a channel with its messages, and disconnect its clients.

        :raises InvalidName: for a name that nsqd would refuse
        :raises HTTPStatusError: ``TOPIC_NOT_FOUND``, ``CHANNEL_NOT_FOUND``
        """
        await self._post("/channel/delete", channel_parameters(topic, channel))

    async def empty_channel(self, topic: str, channel: str) -> None:
        """Drop the messages of a channel, including those in flight and deferred.

        :raises InvalidName: for a name that nsqd would refuse
        :raises HTTPStatusError: ``TOPIC_NOT_FOUND``, ``CHANNEL_NOT_FOUND``
        """
        await self._post("/channel/empty", channel_parameters(topic, channel))

    async def pause_channel(self, topic: str, channel: str) -> None:
        """Stop the flow of messages from a channel to its clients; the pause survives restarts of nsqd.

        :raises InvalidName: for a name that nsqd would refuse
        :raises HTTPStatusError: ``TOPIC_NOT_FOUND``, ``CHANNEL_NOT_FOUND``
        """
        await self._post("/channel/pause", channel_parameters(topic, channel))

    async def unpause_channel(self, topic: str, channel: str) -> None:
        """Let the messages of a paused channel flow again.

        :raises InvalidName: for a name that nsqd would refuse
        :raises HTTPStatusError: ``TOPIC_NOT_FOUND``, ``CHANNEL_NOT_FOUND``
        """
        await self._post("/channel/unpause", channel_parameters(topic, channel))

    async def config(self, option: str) -> object:
        """Ask for the value of an option of nsqd, decoded from JSON.

        :param option: its name in nsqd's configuration file, such as ``max_rdy_count``. Durations are in
            nanoseconds, ``log_level`` as 1 (debug) to 5 (fatal)
        :raises InvalidOption: if ``option`` is not 1 to 64 characters of ``[a-z0-9_]``
        :raises HTTPStatusError: ``INVALID_OPTION``
        """
        return await self._config("GET", option)

    async def set_config(self, option: str, value: str | Sequence[str]) -> object:
        """Set an option until nsqd stops, and return its new value as `config` does.

        :param option: nsqd 1.3.0 can set ``nsqlookupd_tcp_addresses`` and ``log_level``
        :param value: a string is sent unchanged, a sequence of strings as JSON
        :raises InvalidOption: if ``option`` is not a name as for `config`, or ``value`` has another type
        :raises HTTPStatusError: ``INVALID_OPTION``, ``INVALID_VALUE``
        """
        if isinstance(value, str):
            body = value.encode()
        elif isinstance(value, Sequence) and all(isinstance(item, str) for item in value):
            body = json.dumps(list(value)).encode()
        else:
            raise InvalidOption(f"value={value!r} is not valid: use a string or a sequence of strings")
        return await self._config("PUT", option, body)

    async def nsqlookupd_tcp_addresses(self) -> tuple[str, ...]:
        """Ask for the nsqlookupds at which this nsqd registers, as ``host:port``."""
        path = "/config/nsqlookupd_tcp_addresses"
        return await self._get(path, lambda value: Fields({"config": value}, "reply").values("config", ""))

    async def set_nsqlookupd_tcp_addresses(self, nsqlookupds: Sequence[str]) -> None:
        """Set the nsqlookupds at which this nsqd registers; an empty sequence unregisters it everywhere.

        :raises InvalidAddress: if an element is not ``host:port``
        """
        checked = [str(address) for address in addresses(nsqlookupds)] if nsqlookupds else []
        await self.set_config("nsqlookupd_tcp_addresses", checked)

    async def log_level(self) -> LogLevel:
        """Ask for nsqd's log level."""
        return await self._get("/config/log_level", _log_level)

    async def set_log_level(self, level: LogLevel) -> None:
        """Set nsqd's log level.

        :raises InvalidOption: if ``level`` is not a log level
        """
        if level not in _LOG_LEVELS:
            raise InvalidOption(f"level={level!r} is not valid: use one of {', '.join(_LOG_LEVELS)}")
        await self.set_config("log_level", level)

    async def set_block_rate(self, rate: int) -> None:
        """Set the sampling rate of nsqd's ``block`` profile.

        :param rate: nanoseconds of blocking for each sample; 0 for no samples, 1 for all events
        :raises InvalidOption: if ``rate`` is not 0 to 2**63 - 1
        """
        check_integer("rate", rate, 0, 2**63 - 1)
        await self._debug("PUT", "/debug/setblockrate", {"rate": str(rate)})

    async def free_memory(self) -> None:
        """Make nsqd collect garbage and return memory to the operating system."""
        await self._debug("POST", "/debug/freememory", {})

    async def _debug(self, method: str, path: str, parameters: Mapping[str, str]) -> None:
        try:
            await self._request(method, path, parameters)
        except HTTPStatusError as error:
            # nsqd 1.3.0 executes the request, then panics while it writes the empty answer, and its panic
            # handler sends this error. A refusal has status 400.
            if (error.status, error.code) != (httpx.codes.INTERNAL_SERVER_ERROR, "INTERNAL_ERROR"):
                raise

    async def _config(self, method: str, option: str, body: bytes = b"") -> object:
        if not isinstance(option, str) or not _OPTION.fullmatch(option):
            raise InvalidOption(f"option={option!r} is not valid: use 1 to 64 characters of [a-z0-9_]")
        reply = await self._request(method, f"/config/{option}", body=body)
        # nsqd writes a string option without quotes; only the content type shows that it is not JSON.
        if reply.content_type != "application/json":
            return reply.text()
        return reply.read(lambda value: value)


def _check_body(body: Body) -> bytes:
    if not isinstance(body, Body):
        raise InvalidBody(f"a body of type {type(body).__name__} is not valid: use bytes")
    content = bytes(body)
    if not content:
        raise InvalidBody("an empty body is not valid: use 1 byte or more")
    return content


def _log_level(value: object) -> LogLevel:
    # nsqd reports the level as a number, from 1.
    if type(value) is not int or not 1 <= value <= len(_LOG_LEVELS):
        raise ValueError("log_level is not 1 to 5")
    return _LOG_LEVELS[value - 1]
