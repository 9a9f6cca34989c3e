"""The live tail of a topic: its page, and the stream of messages that the page shows."""

from __future__ import annotations

from collections.abc import Sequence

import anyio

from ...http import TopicStats
from ...serving.asgi import EVENT_STREAM, KEEP_ALIVE, StreamedResponse, Write, server_sent_event
from ...serving.http_messages import Response
from ..messages.content import MessageRow
from ..messages.messages import Messages
from ..messages.tail import Tail, TooManyViewers
from .message_access import in_place, messages_of, topic_of
from .rendering import SECURITY_HEADERS
from .request import Values, Visit

_IDLE = 15.0
_AT_FIRST = 20
"""How many of the messages before are shown to a new viewer."""


async def live(visit: Visit) -> Values:
    """Return the values of the page."""
    messages_of(visit)
    topic = topic_of(visit)
    rates = visit.view.figures.rates.get((topic, ""))
    return {
        "topic": topic,
        "total": _total(visit, topic),
        "ingress": None if rates is None else rates.ingress,
    }


def _total(visit: Visit, topic: str) -> TopicStats | None:
    return next((each.total for each in visit.view.topics if each.total.topic_name == topic), None)


@in_place
async def permit_draining(visit: Visit) -> Response:
    """Answer a viewer who has confirmed that the tail takes messages that wait in the topic."""
    messages = messages_of(visit)
    topic = topic_of(visit)
    visit.site.access.check_form(visit.request)
    visit.site.actions.record("tail_topic_without_channel", topic, "", "", visit.request)
    return visit.show("_tail_start.html", {"topic": topic, "token": messages.tails.permit(topic)})


async def stream(visit: Visit) -> StreamedResponse:
    """Answer with server-sent events: ``messages``, ``state`` and, when nothing more will come, ``over``."""
    messages = messages_of(visit)
    topic = topic_of(visit)
    visit.site.access.check_own_page(visit.request)
    token = visit.query.optional("permit")
    may_drain = bool(token) and messages.tails.is_permitted(topic, token)
    if may_drain:
        visit.site.access.check_user(visit.request)
    viewer = _Viewer(visit, messages, topic, may_drain)
    # The visit, and so its view of the cluster, is not kept as long as somebody watches.
    return StreamedResponse(200, viewer.send, (*EVENT_STREAM, *SECURITY_HEADERS))


class _Viewer:
    """Sends what a tail shows to one viewer, who misses messages if he is slow."""

    def __init__(self, visit: Visit, messages: Messages, topic: str, may_drain: bool) -> None:
        self._renderer = visit.site.renderer
        self._root = visit.root
        self._may_act = visit.may_act
        self._messages = messages
        self._topic = topic
        self._may_drain = may_drain

    async def send(self, write: Write) -> None:
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
                with anyio.move_on_after(_IDLE) as idle:
                    await tail.changed()
                if idle.cancelled_caught:
                    await write(KEEP_ALIVE)

    def _render(self, rows: Sequence[MessageRow]) -> str:
        return self._renderer.render("_messages.html", {"rows": rows}).decode()

    def _shown(self, template: str, **values: object) -> str:
        shared = {"root": self._root, "topic": self._topic, "may_act": self._may_act}
        return self._renderer.render(template, {**shared, **values}).decode()
