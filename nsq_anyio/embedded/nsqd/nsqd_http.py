"""The HTTP API of the embedded nsqd, with the statuses, codes and JSON of nsqd 1.3.0.

``/debug/...``, which shows the internals of a Go program, is answered with 404.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Generator

from anyio.lowlevel import checkpoint

from ...errors import ServerError
from ...names import is_valid_name
from ...protocol.command_decoder import decode_bodies
from ...serving.http_messages import BodyError, BodyTooLarge, Request, Response
from ...serving.nsq_api import (
    Arguments,
    Refusal,
    arguments,
    arguments_after_body,
    json_response,
    plain_response,
    text_response,
)
from ...serving.nsq_router import Router
from ..identity import NSQ_VERSION, NsqdIdentity
from .broker import Broker
from .channel import Channel
from .nsqd_client import NsqdClient
from .nsqd_config import NsqdConfig
from .nsqd_stats import MEMORY_FIELDS, StatsQuery, collect_stats, stats_text
from .output import reason
from .topic import Topic

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
_BOOLEANS = {"true": True, "1": True, "false": False, "0": False}
_AT_A_TIME = 2_000
"""The most messages of a request that are published before other tasks get a turn."""
_NANOSECONDS = 1_000_000_000
_MILLISECONDS = 1000


def nsqd_routes(
    broker: Broker, clients: Collection[NsqdClient], identity: NsqdIdentity, config: NsqdConfig
) -> Router[Response]:
    """Return the handler of all requests."""
    api = _Api(broker, clients, identity, config)
    return Router(
        {
            ("GET", "/ping"): api.ping,
            ("GET", "/info"): api.info,
            ("POST", "/pub"): api.pub,
            ("POST", "/mpub"): api.mpub,
            ("GET", "/stats"): api.stats,
            ("POST", "/topic/create"): api.create_topic,
            ("POST", "/topic/delete"): api.delete_topic,
            ("POST", "/topic/empty"): api.empty_topic,
            ("POST", "/topic/pause"): api.pause_topic,
            ("POST", "/topic/unpause"): api.unpause_topic,
            ("POST", "/channel/create"): api.create_channel,
            ("POST", "/channel/delete"): api.delete_channel,
            ("POST", "/channel/empty"): api.empty_channel,
            ("POST", "/channel/pause"): api.pause_channel,
            ("POST", "/channel/unpause"): api.unpause_channel,
            ("GET", "/config/:opt"): api.get_config,
            ("PUT", "/config/:opt"): api.put_config,
        }
    )


class _Api:
    def __init__(
        self, broker: Broker, clients: Collection[NsqdClient], identity: NsqdIdentity, config: NsqdConfig
    ) -> None:
        self._broker = broker
        self._clients = clients
        self._identity = identity
        self._config = config

    async def ping(self, _: Request) -> Response:
        health = self._health
        return plain_response(health) if health == "OK" else plain_response(health, 500)

    @property
    def _health(self) -> str:
        disk = self._broker.disk
        return f"NOK - {reason(disk.error)}" if disk is not None and disk.error is not None else "OK"

    async def info(self, _: Request) -> Response:
        identity = self._identity
        options = self._broker.options
        return json_response(
            {
                **identity.registration(),
                # -1 as in nsqd, although it sends 0 to nsqlookupd.
                "tcp_port": identity.tcp_port or -1,
                "http_port": identity.http_port or -1,
                "start_time": int(identity.started_at),
                "max_heartbeat_interval": round(options.max_heartbeat_interval * _NANOSECONDS),
                "max_output_buffer_size": options.max_output_buffer_size,
                "max_output_buffer_timeout": round(options.max_output_buffer_timeout * _NANOSECONDS),
                "max_deflate_level": options.max_deflate_level,
            }
        )

    # Publishing. The order of the checks is nsqd's: some requests are refused after the topic was created.

    async def pub(self, request: Request) -> Response:
        body = await _read(request, self._broker.options.max_msg_size, "MSG_TOO_BIG")
        if not body:
            raise Refusal(400, "MSG_EMPTY")
        query = arguments(request)
        topic = await self._get_or_make_topic(query)
        return await _published(topic, [body], self._defer(query))

    def _defer(self, query: Arguments) -> float:
        text = query.optional("defer", "0")
        if not _INTEGER.fullmatch(text):
            raise Refusal(400, "INVALID_DEFER")
        seconds = int(text) / _MILLISECONDS
        if not 0 <= seconds <= self._broker.options.max_req_timeout:
            raise Refusal(400, "INVALID_DEFER")
        return seconds

    async def mpub(self, request: Request) -> Response:
        options = self._broker.options
        if (request.content_length or 0) > options.max_body_size:
            raise Refusal(413, "BODY_TOO_BIG")
        query = arguments(request)
        topic = await self._get_or_make_topic(query)
        # nsqd accepts a chunked binary body of any length. Here it is limited: all of it is in memory.
        body = await _read(request, options.max_body_size, "BODY_TOO_BIG")
        if _BOOLEANS.get(query.optional("binary", "false"), True):
            try:
                bodies = await _in_turns(decode_bodies(body, options.limits))
            except ServerError as error:
                raise Refusal(413, error.code.removeprefix("E_")) from None
        else:
            bodies = [line for line in body.split(b"\n") if line]
            if any(len(line) > options.max_msg_size for line in bodies):
                raise Refusal(413, "MSG_TOO_BIG")
        return await _published(topic, bodies)

    # Statistics.

    async def stats(self, request: Request) -> Response:
        query = await arguments_after_body(request)
        include_memory = _BOOLEANS.get(query.optional("include_mem"), True)
        wanted = StatsQuery(
            topic=query.optional("topic"),
            channel=query.optional("channel"),
            include_clients=_BOOLEANS.get(query.optional("include_clients"), True),
        )
        stats = collect_stats(self._broker, self._clients, wanted)
        started_at = self._identity.started_at
        if query.optional("format") != "json":
            return text_response(
                stats_text(stats, health=self._health, started_at=started_at, include_memory=include_memory)
            )
        return json_response(
            {
                "version": NSQ_VERSION,
                "health": self._health,
                "start_time": int(started_at),
                "topics": stats["topics"],
                **({"memory": dict.fromkeys(MEMORY_FIELDS, 0)} if include_memory else {}),
                "producers": stats["producers"],
            }
        )

    # Topics.

    async def create_topic(self, request: Request) -> Response:
        await self._get_or_make_topic(arguments(request))
        await self._broker.stored()
        return text_response()

    async def delete_topic(self, request: Request) -> Response:
        topic = await self._existing_topic(request)
        removed: list[Topic | Channel] = [topic, *topic.channels.values()]
        self._broker.delete_topic(topic.name)
        return await self._removed(*removed)

    async def _removed(self, *queues: Topic | Channel) -> Response:
        """Respond once the messages are removed from disk; otherwise they would reappear after a crash."""
        if await self._broker.stored(*queues) is not None:
            raise Refusal(500, "INTERNAL_ERROR")
        return text_response()

    async def empty_topic(self, request: Request) -> Response:
        name = (await arguments_after_body(request)).get("topic")
        if not is_valid_name(name):
            raise Refusal(400, "INVALID_TOPIC")
        topic = self._topic(name)
        topic.empty()
        return await self._removed(topic)

    async def pause_topic(self, request: Request) -> Response:
        (await self._existing_topic(request)).pause()
        await self._broker.pauses_changed()
        return text_response()

    async def unpause_topic(self, request: Request) -> Response:
        (await self._existing_topic(request)).unpause()
        await self._broker.pauses_changed()
        return text_response()

    # Channels.

    async def create_channel(self, request: Request) -> Response:
        topic, channel_name = await self._topic_and_channel_name(request)
        topic.get_channel(channel_name)
        await self._broker.stored()
        return text_response()

    async def delete_channel(self, request: Request) -> Response:
        topic, channel = await self._existing_channel(request)
        topic.delete_channel(channel.name)
        return await self._removed(channel)

    async def empty_channel(self, request: Request) -> Response:
        _, channel = await self._existing_channel(request)
        channel.empty()
        return await self._removed(channel)

    async def pause_channel(self, request: Request) -> Response:
        _, channel = await self._existing_channel(request)
        channel.pause()
        await self._broker.pauses_changed()
        return text_response()

    async def unpause_channel(self, request: Request) -> Response:
        _, channel = await self._existing_channel(request)
        channel.unpause()
        await self._broker.pauses_changed()
        return text_response()

    # Configuration.

    async def get_config(self, request: Request) -> Response:
        value = self._config.get(_option(request))
        return text_response(value) if isinstance(value, str) else json_response(value)

    async def put_config(self, request: Request) -> Response:
        body = await _read(request, self._broker.options.max_msg_size, "INVALID_VALUE")
        if not body:
            raise Refusal(413, "INVALID_VALUE")
        self._config.put(_option(request), body)
        return await self.get_config(request)

    # Arguments.

    async def _get_or_make_topic(self, query: Arguments) -> Topic:
        """Return a topic with the channels that nsqlookupds know: nsqd waits for these before it answers."""
        name = query.get("topic")
        if not is_valid_name(name):
            raise Refusal(400, "INVALID_TOPIC")
        topic = self._broker.get_topic(name)
        await topic.until_started()
        return topic

    def _topic(self, name: str) -> Topic:
        topic = self._broker.topics.get(name)
        if topic is None:
            raise Refusal(404, "TOPIC_NOT_FOUND")
        return topic

    async def _existing_topic(self, request: Request) -> Topic:
        return self._topic((await arguments_after_body(request)).get("topic"))

    async def _topic_and_channel_name(self, request: Request) -> tuple[Topic, str]:
        query = await arguments_after_body(request)
        topic_name = query.get("topic")
        if not is_valid_name(topic_name):
            raise Refusal(400, "INVALID_ARG_TOPIC")
        channel_name = query.get("channel")
        if not is_valid_name(channel_name):
            raise Refusal(400, "INVALID_ARG_CHANNEL")
        return self._topic(topic_name), channel_name

    async def _existing_channel(self, request: Request) -> tuple[Topic, Channel]:
        topic, channel_name = await self._topic_and_channel_name(request)
        channel = topic.channels.get(channel_name)
        if channel is None:
            raise Refusal(404, "CHANNEL_NOT_FOUND")
        return topic, channel


async def _in_turns(steps: Generator[None, None, list[bytes]]) -> list[bytes]:
    """Take all steps, with a turn for other tasks between them."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            bodies: list[bytes] = done.value
            return bodies
        await checkpoint()


async def _published(topic: Topic, bodies: list[bytes], defer: float = 0.0) -> Response:
    # In parts, so that other tasks have a turn between them. nsqd, too, stores one message after the other.
    for start in range(0, len(bodies), _AT_A_TIME):
        if start:
            await checkpoint()
        if topic.is_deleted:  # while it was prepared, or while the body arrived
            raise Refusal(503, "EXITING")
        receipt = topic.publish(bodies[start : start + _AT_A_TIME], defer)
        if receipt is not None and await receipt.wait() is not None:
            raise Refusal(503, "EXITING")  # nsqd has no better code for it
    return text_response("OK")


async def _read(request: Request, limit: int, code: str) -> bytes:
    """Return the body; ``code`` is the error for a body that is too large."""
    try:
        return await request.read(limit)
    except BodyTooLarge:
        raise Refusal(413, code) from None
    except BodyError:
        raise Refusal(500, "INTERNAL_ERROR") from None


def _option(request: Request) -> str:
    return request.target.path.rpartition("/")[2]
