"""The form that publishes a message, and its result."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import partial

from ...errors import InvalidOption
from ...serving.http_messages import Response
from ..messages.publishing import Draft, Target
from ..messages.publishing import publish as publish_draft
from ..messages.topic_nodes import TopicNode, TopicNodes
from .forms import new_number, read_fields
from .message_access import in_dialog, topic_of
from .request import PageError, PageRequest

_MAX_FORM_SIZE = 2 * 1024 * 1024
"""nsqd accepts messages of up to 1 MiB by default. A byte that the form escapes takes three, so
a text of that size fits if fewer than half of its bytes are escaped."""


@in_dialog
async def publish_form(request: PageRequest) -> Response:
    """Show the form in the dialog."""
    topic = topic_of(request)
    request.context.access.check_user(request.http)
    return _form(request, topic, {}, "")


@in_dialog
async def publish(request: PageRequest) -> Response:
    """Publish the form's message and show the outcome, or show the form again with the error.

    A form that is sent twice publishes once.
    """
    topic = topic_of(request)
    request.context.access.check_form(request.http)
    found = await read_fields(request.http, limit=_MAX_FORM_SIZE)
    fields = {name: values[0] for name, values in found.items()}
    return await request.context.submit(fields.get("number", ""), partial(_publish, request, topic, fields))


async def _publish(request: PageRequest, topic: str, fields: Mapping[str, str]) -> Response:
    try:
        draft = Draft.of_form(fields)
    except InvalidOption as error:
        return _form(request, topic, fields, str(error))
    node = fields.get("node", "")
    targets = [Target(each.name, each.url) for each in _nodes(request, topic) if node in ("", each.name)]
    if not targets:
        return _form(request, topic, fields, "This nsqd is gone, or does not answer. Choose another.")
    random.shuffle(targets)
    try:
        async with request.context.upstream.used("action") as servers:
            outcome = await publish_draft(servers, topic, draft, targets)
    finally:
        # Recorded even after a failure: the message may have been stored.
        request.context.actions.record("publish_message", topic, "", node, request.http)
    return request.show("_published.html", {"topic": topic, "outcome": outcome, "defer": draft.defer})


def _form(request: PageRequest, topic: str, fields: Mapping[str, str], problem: str) -> Response:
    values = {
        "topic": topic,
        "nodes": sorted(node.name for node in _nodes(request, topic)),
        "fields": fields,
        "problem": problem,
        "number": new_number(),
    }
    return request.show("_publish.html", values, status=400 if problem else 200)


def _nodes(request: PageRequest, topic: str) -> tuple[TopicNode, ...]:
    """Return the nsqds that have the topic.

    :raises PageError: if there is none, because nsqd would create the topic
    """
    nodes = TopicNodes.in_snapshot(request.snapshot, topic, request.context.options.connection).all
    if not nodes:
        raise PageError(404, "No nsqd has this topic", "Create the topic first, or use nsq-anyio pub.")
    return nodes
