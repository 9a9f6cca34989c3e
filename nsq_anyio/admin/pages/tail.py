"""The page of a topic's live tail, and its stream of messages."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from ...http import TopicStats
from ...serving.asgi import (
    EVENT_STREAM,
    KEEP_ALIVE_INTERVAL,
    StreamedResponse,
    Write,
    keep_alive_event,
    server_sent_event,
)
from ...serving.http_messages import Response
from ..messages.content import MessageRow
from ..messages.messages import Messages
from ..messages.tail import Tail, TooManyViewers
from .message_access import in_place, messages_of, topic_of
from .request import PageRequest, Values

_AT_FIRST = 20
"""How many earlier messages a new viewer gets."""


async def live(request: PageRequest) -> Values:
    """Return the values of the page."""
    messages_of(request)
    topic = topic_of(request)
    rates = request.snapshot.figures.rates.get((topic, ""))
    return {
        "topic": topic,
        "total": _total(request, topic),
        "ingress": None if rates is None else rates.ingress,
    }


def _total(request: PageRequest, topic: str) -> TopicStats | None:
    return next((each.total for each in request.snapshot.topics if each.total.topic_name == topic), None)


@in_place
async def permit_draining(request: PageRequest) -> Response:
    """Return a token for a tail that consumes the topic's backlog, which the viewer has confirmed."""
    messages = messages_of(request)
    topic = topic_of(request)
    request.context.access.check_form(request.http)
    request.context.actions.record("tail_topic_without_channel", topic, "", "", request.http)
    return request.show("_tail_start.html", {"topic": topic, "token": messages.tails.permit(topic)})


async def stream(request: PageRequest) -> StreamedResponse:
    """Answer with server-sent events: ``messages``, ``state``, ``alive`` and at the end ``over``."""
    messages = messages_of(request)
    topic = topic_of(request)
    request.context.access.check_own_page(request.http)
    token = request.query.optional("permit")
    may_drain = bool(token) and messages.tails.is_permitted(topic, token)
    if may_drain:
        request.context.access.check_user(request.http)
    viewer = _Viewer(request, messages, topic, may_drain)
    # The viewer does not keep the request, whose snapshot would stay in memory as long as the viewer watches.
    return StreamedResponse(200, viewer.send, EVENT_STREAM)


class _Viewer:
    """Sends the messages of a tail to one viewer; a slow viewer misses some."""

    def __init__(self, request: PageRequest, messages: Messages, topic: str, may_drain: bool) -> None:
        self._renderer = request.context.renderer
        self._root = request.root
        self._may_act = request.may_act
        self._messages = messages
        self._topic = topic
        self._may_drain = may_drain

    async def send(self, write: Write) -> None:
        await write(keep_alive_event())
        try:
            async with self._messages.tails.watching(
                self._topic, self._render, may_drain=self._may_drain
            ) as tail:
                await self._follow(tail, write)
        except TooManyViewers as error:
            await write(server_sent_event(self._shown("_tail_full.html", error=str(error)), event="state"))
            await write(server_sent_event("", event="over"))

    async def _follow(self, tail: Tail, write: Write) -> None:
        number = max(tail.number - _AT_FIRST, 0)
        state = None
        while True:
            sent = number, state
            if pieces := tail.since(number):
                number = pieces[-1].number
                await write(server_sent_event("\n".join(piece.html for piece in pieces), event="messages"))
            if tail.state is not state:
                state = tail.state
                await write(server_sent_event(self._shown("_tail_state.html", state=state), event="state"))
                if state.is_over:
                    await write(server_sent_event("", event="over"))
                    return
            if sent == (number, state):
                with anyio.move_on_after(KEEP_ALIVE_INTERVAL) as idle:
                    await tail.changed()
                if idle.cancelled_caught:
                    await write(keep_alive_event())

    def _render(self, rows: Sequence[MessageRow]) -> str:
        return self._renderer.render("_messages.html", {"rows": rows}).decode()

    def _shown(self, template: str, **values: object) -> str:
        shared = {"root": self._root, "topic": self._topic, "may_act": self._may_act}
        return self._renderer.render(template, {**shared, **values}).decode()
