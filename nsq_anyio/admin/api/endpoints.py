"""nsqadmin's endpoints."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias
from urllib.parse import parse_qs

from ...http.reply import is_object, parse_json, printable
from ...names import is_valid_name
from ...serving.http_messages import BodyTooLarge, Handler, Request, Response
from ...serving.nsq_api import Refusal, arguments, json_response, plain_response, text_response
from ...serving.nsq_router import parameters
from ..access import Access
from ..actions import Actions, Command, is_action
from ..upstream import Purpose, Upstream
from .cluster_info import ClusterInfo, UnknownNode, UpstreamError, listed
from .configuration import MAX_VALUE_SIZE, Configuration
from .nsqds import described, out_of_date
from .statistics import channel_total, topic_total

_log = logging.getLogger(__name__)

_MAX_BODY_SIZE = 64 * 1024
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2}).{0,2}", re.DOTALL)
_TOPIC, _CHANNEL, _NODE = "/api/topics/:topic", "/api/topics/:topic/:channel", "/api/nodes/:node"
_CONFIG = "/config/:opt"

Question: TypeAlias = Callable[[Request, ClusterInfo], Awaitable[Response]]


class Api:
    """Handles the requests to the API.

    :param base: the prefix of each path, without a slash at its end
    :ivar routes: the handlers by method and path, without the prefix
    """

    def __init__(
        self, base: str, upstream: Upstream, access: Access, actions: Actions, configuration: Configuration
    ) -> None:
        self._base = base
        self._upstream = upstream
        self._access = access
        self._actions = actions
        self._configuration = configuration
        self.routes: Mapping[tuple[str, str], Handler] = {
            ("GET", "/ping"): self._ping,
            ("GET", "/api/topics"): self._asking(self._topics),
            ("GET", _TOPIC): self._asking(self._topic),
            ("GET", _CHANNEL): self._asking(self._channel),
            ("GET", "/api/nodes"): self._asking(self._nodes),
            ("GET", _NODE): self._asking(self._node),
            ("GET", "/api/counter"): self._asking(self._counter),
            ("GET", "/api/graphite"): self._graphite,
            ("POST", "/api/topics"): self._asking(self._create),
            ("POST", _TOPIC): self._asking(self._act_on_topic),
            ("POST", _CHANNEL): self._asking(self._act_on_channel),
            ("DELETE", _NODE): self._asking(self._tombstone),
            ("DELETE", _TOPIC): self._asking(self._delete_topic),
            ("DELETE", _CHANNEL): self._asking(self._delete_channel),
            ("GET", _CONFIG): self._get_config,
            ("PUT", _CONFIG): self._put_config,
        }

    def _parameters(self, request: Request, pattern: str) -> tuple[str, ...]:
        return parameters(request, pattern, base=self._base)

    def _asking(self, question: Question) -> Handler:
        """Return a handler that asks the servers of the cluster."""

        async def handle(request: Request) -> Response:
            self._access.check_host(request)
            purpose: Purpose = "page" if request.method in ("GET", "HEAD") else "action"
            async with self._upstream.used(purpose) as servers:
                cluster = ClusterInfo(servers)
                try:
                    return await question(request, cluster)
                except UpstreamError as error:
                    reasons = str(error).replace("\n", "; ")
                    _log.warning("%s %s: %s", request.method, printable(request.target.path), reasons)
                    raise Refusal(502, f"UPSTREAM_ERROR: {error}") from None
                except UnknownNode:
                    raise Refusal(404, "NODE_NOT_FOUND") from None

        return handle

    async def _ping(self, _: Request) -> Response:
        return plain_response("OK")

    # Questions

    async def _topics(self, request: Request, cluster: ClusterInfo) -> Response:
        query = _query(request)
        topics = await cluster.topics()
        if query.get("inactive", [""])[0] == "true":
            return _answer({"topics": await cluster.inactive_topics(topics)}, cluster)
        return _answer({"topics": topics or None}, cluster)

    async def _topic(self, request: Request, cluster: ClusterInfo) -> Response:
        topic = self._topic_of(request)
        rows = await cluster.stats(await cluster.nsqds_of(topic), topic)
        return _answer(topic_total(topic, rows), cluster)

    async def _channel(self, request: Request, cluster: ClusterInfo) -> Response:
        topic, channel = self._channel_of(request)
        topics = await cluster.stats(await cluster.nsqds_of(topic), topic, channel, clients=True)
        rows = [row for each in topics for row in each["channels"] if row["channel_name"] == channel]
        return _answer(channel_total(topic, channel, rows) if rows else {}, cluster)

    async def _nodes(self, _: Request, cluster: ClusterInfo) -> Response:
        nsqds = await cluster.nsqds()
        outdated = out_of_date(nsqds)
        return _answer({"nodes": [described(nsqd, outdated) for nsqd in nsqds] or None}, cluster)

    async def _node(self, request: Request, cluster: ClusterInfo) -> Response:
        (name,) = self._parameters(request, _NODE)
        topics = await cluster.stats([await cluster.nsqd_named(name)], clients=True)
        clients = [channel["clients"] or () for topic in topics for channel in topic["channels"]]
        totals = {
            "total_messages": sum(topic["message_count"] for topic in topics),
            "total_clients": sum(map(len, clients)),
        }
        return _answer({"node": name, "topics": topics or None, **totals}, cluster)

    async def _counter(self, _: Request, cluster: ClusterInfo) -> Response:
        counts: dict[str, dict[str, object]] = {}
        for topic in await cluster.stats(await cluster.nsqds()):
            for row in topic["channels"]:
                key = f"{row['topic_name']}:{row['channel_name']}:{row['node']}"
                names = ("node", "topic_name", "channel_name", "message_count")
                counts[key] = {name: row[name] for name in names}
        return _answer({"stats": dict(sorted(counts.items()))}, cluster)

    async def _graphite(self, request: Request) -> Response:
        self._access.check_host(request)
        arguments(request)  # refuses an invalid query, with a different code from `_query`
        query = _query(request)
        if query.get("metric", [""])[0] != "rate":
            raise Refusal(400, "INVALID_ARG_METRIC")
        if "target" not in query:
            raise Refusal(400, "INVALID_ARG_TARGET")
        # nsqadmin answers 500 INTERNAL_ERROR without a graphite server.
        raise Refusal(501, "NOT_IMPLEMENTED: rates are not read from graphite; use nsq-anyio exporter")

    # Actions

    async def _create(self, request: Request, cluster: ClusterInfo) -> Response:
        self._access.check_action(request)
        topic, channel = await _fields(request, "topic", "channel")
        _check_name(topic, "INVALID_TOPIC")
        if channel:
            _check_name(channel, "INVALID_CHANNEL")
        return await self._perform(request, cluster, Command("create", topic, channel))

    async def _act_on_topic(self, request: Request, cluster: ClusterInfo) -> Response:
        return await self._act(request, cluster, self._topic_of(request), "")

    async def _act_on_channel(self, request: Request, cluster: ClusterInfo) -> Response:
        return await self._act(request, cluster, *self._channel_of(request))

    async def _act(self, request: Request, cluster: ClusterInfo, topic: str, channel: str) -> Response:
        self._access.check_action(request)
        (action,) = await _fields(request, "action")
        if not is_action(action) or action not in ("pause", "unpause", "empty"):
            raise Refusal(400, "INVALID_ACTION")
        return await self._perform(request, cluster, Command(action, topic, channel))

    async def _delete_topic(self, request: Request, cluster: ClusterInfo) -> Response:
        self._access.check_action(request)
        return await self._perform(request, cluster, Command("delete", self._topic_of(request)))

    async def _delete_channel(self, request: Request, cluster: ClusterInfo) -> Response:
        self._access.check_action(request)
        return await self._perform(request, cluster, Command("delete", *self._channel_of(request)))

    async def _tombstone(self, request: Request, cluster: ClusterInfo) -> Response:
        self._access.check_action(request)
        (name,) = self._parameters(request, _NODE)
        (topic,) = await _fields(request, "topic", refusal="INVALID_BODY")
        _check_name(topic, "INVALID_TOPIC")
        return await self._perform(request, cluster, Command("tombstone", topic, node=name))

    async def _perform(self, request: Request, cluster: ClusterInfo, command: Command) -> Response:
        await self._actions.perform(cluster, request, command)
        return json_response({"message": _message(cluster, "\n")})

    # The configuration

    async def _get_config(self, request: Request) -> Response:
        self._access.check_host(request)
        self._access.check_config(request)
        return self._config(request)

    async def _put_config(self, request: Request) -> Response:
        self._access.check_host(request)
        self._access.check_config(request)
        self._access.check_writable()
        (name,) = self._parameters(request, _CONFIG)
        await self._configuration.set(name, await _body(request, MAX_VALUE_SIZE, "INVALID_VALUE"))
        return self._config(request)

    def _config(self, request: Request) -> Response:
        (name,) = self._parameters(request, _CONFIG)
        value = self._configuration.get(name)
        return text_response(value) if isinstance(value, str) else json_response(value)

    def _topic_of(self, request: Request) -> str:
        (topic,) = self._parameters(request, _TOPIC)
        return _check_name(topic, "INVALID_TOPIC")

    def _channel_of(self, request: Request) -> tuple[str, str]:
        topic, channel = self._parameters(request, _CHANNEL)
        return _check_name(topic, "INVALID_TOPIC"), _check_name(channel, "INVALID_CHANNEL")


def _answer(value: dict[str, object], cluster: ClusterInfo) -> Response:
    """Return an answer, with the warnings."""
    cluster.log_warnings()
    return json_response({**value, "message": _message(cluster, "; ")})


def _message(cluster: ClusterInfo, separator: str) -> str:
    return f"WARNING: {listed(cluster.warnings, separator)}" if cluster.warnings else ""


def _check_name(name: str, code: str) -> str:
    if not is_valid_name(name):
        raise Refusal(400, code)
    return name


def _query(request: Request) -> dict[str, list[str]]:
    query = request.target.query
    if bad := _BAD_ESCAPE.search(query):
        raise Refusal(400, f'invalid URL escape "{bad[0]}"')
    if ";" in query:
        raise Refusal(400, "invalid semicolon separator in query")
    return parse_qs(query, keep_blank_values=True)


async def _body(request: Request, limit: int, code: str) -> bytes:
    try:
        return await request.read(limit)
    except BodyTooLarge:
        raise Refusal(413, code) from None


async def _fields(request: Request, *names: str, refusal: str = "") -> list[str]:
    """Return string fields of the JSON object in the body; missing ones are empty.

    :param refusal: the code if the body is not valid; by default, the reason
    :raises Refusal: 400 if the body is not valid; 413 if it is too large
    """
    body = await _body(request, _MAX_BODY_SIZE, "BODY_TOO_BIG")
    try:
        value = parse_json(body) if body.strip() else None
        if not is_object(value):
            raise ValueError("not an object" if body.strip() else "EOF")
        given = {
            key.lower(): each for key, each in value.items() if each is not None
        }  # Go ignores the case of names
        found = [given.get(name, "") for name in names]
        if not all(isinstance(each, str) for each in found):
            raise ValueError(f"{' and '.join(names)} must be a string")
    except ValueError as error:
        raise Refusal(400, refusal or str(error)) from None
    return [str(each) for each in found]
