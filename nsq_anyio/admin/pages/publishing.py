"""The form that publishes a message, and what came of it."""

from __future__ import annotations

import random

from ...errors import InvalidOption
from ...serving.http_messages import Response
from ...serving.nsq_api import Refusal
from ..messages.places import Place, Places
from ..messages.publishing import FORMATS, Draft, Target
from ..messages.publishing import publish as publish_draft
from .forms import read_fields
from .message_access import topic_of
from .visit import PageError, Visit

__all__ = ["publish", "publish_form"]

_MAX_FORM_SIZE = 2 * 1024 * 1024
"""nsqd takes messages of 1 MiB by default, and a form can need up to three times as much."""


async def publish_form(visit: Visit) -> Response:
    """Show the form in the dialog."""
    topic = topic_of(visit)
    visit.site.access.check_user(visit.request)
    return _shown(visit, topic, {}, "")


async def publish(visit: Visit) -> Response:
    """Publish what the form has, and show what came of it; or show the form again, with what is wrong."""
    topic = topic_of(visit)
    visit.site.access.check_form(visit.request)
    try:
        found = await read_fields(visit.request, limit=_MAX_FORM_SIZE)
    except Refusal as refusal:
        if refusal.status != 413:
            raise
        return _shown(
            visit, topic, {}, "The form is larger than 2 MiB. Use nsq-anyio pub for such a message."
        )
    fields = {name: values[0] for name, values in found.items()}
    try:
        draft = Draft.of_form(fields)
    except InvalidOption as error:
        return _shown(visit, topic, fields, str(error))
    targets = _targets(visit, topic, fields.get("node", ""))
    if not targets:
        return _shown(
            visit, topic, fields, "This nsqd is not there any more, or does not answer. Choose another."
        )
    node = targets[0].name if fields.get("node") else ""
    try:
        async with visit.site.upstream.used() as servers:
            outcome = await publish_draft(servers, topic, draft, targets)
    finally:
        # Whether it succeeds or not: it may have been stored.
        visit.site.actions.record("publish_message", topic, "", node, visit.request)
    return visit.show("_published.html", {"topic": topic, "outcome": outcome, "defer": draft.defer})


def _shown(visit: Visit, topic: str, fields: dict[str, str], problem: str) -> Response:
    places = _places(visit, topic)
    values = {
        "topic": topic,
        "nodes": [place.name for place in places],
        "formats": FORMATS,
        "fields": fields,
        "problem": problem,
    }
    return visit.show("_publish.html", values)


def _places(visit: Visit, topic: str) -> tuple[Place, ...]:
    """Return the nsqds that have the topic.

    :raises PageError: if there is none: nsqd would create the topic
    """
    places = Places.in_view(visit.view, topic, visit.site.options.connection).all
    if not places:
        raise PageError(
            404,
            "No nsqd has this topic",
            "So there is nothing to publish to. Create the topic first, or use nsq-anyio pub.",
        )
    return places


def _targets(visit: Visit, topic: str, node: str) -> list[Target]:
    found = [Target(each.name, each.url) for each in _places(visit, topic) if node in ("", each.name)]
    random.shuffle(found)
    return found
