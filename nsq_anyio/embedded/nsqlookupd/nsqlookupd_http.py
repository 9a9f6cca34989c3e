"""The HTTP API of the embedded nsqlookupd, with the statuses, codes and JSON of nsqlookupd 1.3.0."""

from __future__ import annotations

from collections.abc import Callable

from ...names import is_valid_name
from ...serving.http_messages import Request, Response
from ...serving.nsq_api import (
    Arguments,
    Refusal,
    arguments_after_body,
    json_response,
    plain_response,
    text_response,
)
from ...serving.nsq_router import Router
from ..identity import NSQ_VERSION
from .registry import Peer, Producer, Registry

_NANOSECONDS = 1_000_000_000


def nsqlookupd_routes(registry: Registry, clock: Callable[[], float]) -> Router[Response]:
    """Return the handler of all requests.

    :param clock: returns the Unix time in seconds, for the registry
    """
    api = _Api(registry, clock)
    return Router(
        {
            ("GET", "/ping"): api.ping,
            ("GET", "/info"): api.info,
            ("GET", "/debug"): api.debug,
            ("GET", "/lookup"): api.lookup,
            ("GET", "/topics"): api.topics,
            ("GET", "/channels"): api.channels,
            ("GET", "/nodes"): api.nodes,
            ("POST", "/topic/create"): api.create_topic,
            ("POST", "/topic/delete"): api.delete_topic,
            ("POST", "/topic/tombstone"): api.tombstone,
            ("POST", "/channel/create"): api.create_channel,
            ("POST", "/channel/delete"): api.delete_channel,
        }
    )


class _Api:
    def __init__(self, registry: Registry, clock: Callable[[], float]) -> None:
        self._registry = registry
        self._clock = clock

    async def ping(self, _: Request) -> Response:
        return plain_response("OK")

    async def info(self, _: Request) -> Response:
        return json_response({"version": NSQ_VERSION})

    async def lookup(self, request: Request) -> Response:
        topic = (await arguments_after_body(request)).get("topic")
        if not self._registry.has_topic(topic):
            raise Refusal(404, "TOPIC_NOT_FOUND")
        producers = self._registry.producers(topic, self._clock())
        return json_response(
            {
                "channels": self._registry.channels(topic),
                "producers": [_describe(peer) for peer in producers],
            }
        )

    async def topics(self, _: Request) -> Response:
        return json_response({"topics": self._registry.topics()})

    async def channels(self, request: Request) -> Response:
        topic = (await arguments_after_body(request)).get("topic")
        return json_response({"channels": self._registry.channels(topic)})

    async def nodes(self, _: Request) -> Response:
        nodes = [
            {**_describe(node.peer), "tombstones": node.tombstones, "topics": node.topics}
            for node in self._registry.nodes(self._clock())
        ]
        return json_response({"producers": nodes})

    async def debug(self, _: Request) -> Response:
        return json_response(
            {
                f"{registration.category}:{registration.key}:{registration.subkey}": [
                    _describe_fully(producer) for producer in producers
                ]
                for registration, producers in self._registry.items()
                if producers
            }
        )

    async def create_topic(self, request: Request) -> Response:
        self._registry.create_topic(_topic(await arguments_after_body(request)))
        return text_response()

    async def delete_topic(self, request: Request) -> Response:
        self._registry.delete_topic((await arguments_after_body(request)).get("topic"))
        return text_response()

    async def tombstone(self, request: Request) -> Response:
        query = await arguments_after_body(request)
        self._registry.tombstone(query.get("topic"), query.get("node"), self._clock())
        return text_response()

    async def create_channel(self, request: Request) -> Response:
        query = await arguments_after_body(request)
        self._registry.create_channel(_topic(query), _channel(query))
        return text_response()

    async def delete_channel(self, request: Request) -> Response:
        query = await arguments_after_body(request)
        if not self._registry.delete_channel(_topic(query), _channel(query)):
            raise Refusal(404, "CHANNEL_NOT_FOUND")
        return text_response()


def _topic(query: Arguments) -> str:
    return _name(query, "topic")


def _channel(query: Arguments) -> str:
    return _name(query, "channel")


def _name(query: Arguments, kind: str) -> str:
    name = query.get(kind)
    if not is_valid_name(name):
        raise Refusal(400, f"INVALID_ARG_{kind.upper()}")
    return name


def _describe(peer: Peer) -> dict[str, object]:
    return {
        "remote_address": peer.remote_address,
        "hostname": peer.hostname,
        "broadcast_address": peer.broadcast_address,
        "tcp_port": peer.tcp_port,
        "http_port": peer.http_port,
        "version": peer.version,
    }


def _describe_fully(producer: Producer) -> dict[str, object]:
    peer = producer.peer
    return {
        "id": peer.id,
        "hostname": peer.hostname,
        "broadcast_address": peer.broadcast_address,
        "tcp_port": peer.tcp_port,
        "http_port": peer.http_port,
        "version": peer.version,
        "last_update": int(peer.last_update * _NANOSECONDS),
        "tombstoned": producer.tombstoned_at is not None,
        "tombstoned_at": int((producer.tombstoned_at or 0) * _NANOSECONDS),
    }
