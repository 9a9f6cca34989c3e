"""The form that publishes a message, and what came of it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import partial

from ...errors import InvalidOption
from ...serving.http_messages import Response
from ..messages.publishing import Draft, Target
from ..messages.publishing import publish as publish_draft
from ..messages.topic_nodes import Place, Places
from .forms import new_number, read_fields
from .message_access import in_dialog, topic_of
from .request import PageError, Visit

_MAX_FORM_SIZE = 2 * 1024 * 1024
"""nsqd takes messages of 1 MiB by default, and a form can need up to three times as much."""


@in_dialog
async def publish_form(visit: Visit) -> Response:
    """Show the form in the dialog."""
    topic = topic_of(visit)
    visit.site.access.check_user(visit.request)
    return _form(visit, topic, {}, "")


@in_dialog
async def publish(visit: Visit) -> Response:
    """Publish what the form has, and show what came of it; or show the form again, with what is wrong.

    A form that is sent twice publishes once.
    """
    topic = topic_of(visit)
    visit.site.access.check_form(visit.request)
    found = await read_fields(visit.request, limit=_MAX_FORM_SIZE)
    fields = {name: values[0] for name, values in found.items()}
    return await visit.site.once.respond(fields.get("number", ""), partial(_publish, visit, topic, fields))


async def _publish(visit: Visit, topic: str, fields: Mapping[str, str]) -> Response:
    try:
        draft = Draft.of_form(fields)
    except InvalidOption as error:
        return _form(visit, topic, fields, str(error))
    node = fields.get("node", "")
    targets = [Target(each.name, each.url) for each in _places(visit, topic) if node in ("", each.name)]
    if not targets:
        return _form(visit, topic, fields, "This nsqd is gone, or does not answer. Choose another.")
    random.shuffle(targets)
    try:
        async with visit.site.upstream.used() as servers:
            outcome = await publish_draft(servers, topic, draft, targets)
    finally:
        # Whether it succeeds or not: it may have been stored.
        visit.site.actions.record("publish_message", topic, "", node, visit.request)
    return visit.show("_published.html", {"topic": topic, "outcome": outcome, "defer": draft.defer})


def _form(visit: Visit, topic: str, fields: Mapping[str, str], problem: str) -> Response:
    values = {
        "topic": topic,
        "nodes": sorted(place.name for place in _places(visit, topic)),
        "fields": fields,
        "problem": problem,
        "number": new_number(),
    }
    return visit.show("_publish.html", values, status=400 if problem else 200)


def _places(visit: Visit, topic: str) -> tuple[Place, ...]:
    """Return the nsqds that have the topic.

    :raises PageError: if there is none: nsqd would create the topic
    """
    places = Places.in_view(visit.view, topic, visit.site.options.connection).all
    if not places:
        raise PageError(404, "No nsqd has this topic", "Create the topic first, or use nsq-anyio pub.")
    return places
