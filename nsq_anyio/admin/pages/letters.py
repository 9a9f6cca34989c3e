"""Dead letters: their page, and the forms that list, retry and drop them."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import cast
from urllib.parse import parse_qs, urlencode

from ...dead_letters import Filter
from ...http import ChannelStats
from ...names import is_ephemeral, is_valid_name
from ...serving.http_messages import Response
from ..messages.jobs import JobKind, JobRefused, Listing, is_job_kind
from ..messages.topic_nodes import TopicNodes
from .forms import read_fields
from .message_access import in_dialog, in_place, messages_of, topic_of
from .request import PageError, PageRequest, Values

_DEFAULT_CHANNEL = "dead-letter"
_AGES = {
    "": "any time",
    "-3600": "in the last hour",
    "-86400": "in the last day",
    "-604800": "in the last week",
    "3600": "more than an hour ago",
    "86400": "more than a day ago",
    "604800": "more than a week ago",
}
_FIELDS = ("error", "from_topic", "from_channel", "died")
_MOST_FIELDS = 150
_MAX_TEXT = 500


async def letters(request: PageRequest) -> Values:
    """Return the values of the page."""
    messages = messages_of(request)
    topic = topic_of(request)
    channels = _channels(request, topic)
    channel = request.query.optional("channel") or _usual(channels)
    if not is_valid_name(channel):
        raise PageError(404, "There is no such channel", "Choose one of the topic's channels.")
    job = messages.jobs.last(topic, channel)
    listing = messages.jobs.listing(topic, channel)
    version = f"{listing.at}-{len(listing.rows)}" if listing else ""
    shown = request.http.headers.get("x-shown-list")
    return {
        "topic": topic,
        "channels": channels,
        "channel": channel,
        "stats": channels.get(channel),
        "here_query": f"?{urlencode({'channel': channel})}",
        "ages": _AGES,
        "job": job,
        "listing": listing,
        "list_version": version,
        # The list has check boxes, so a poll replaces it only after a job has made a new one.
        "is_list_new": shown not in (None, version) and not (job and job.is_running),
    }


@in_place
async def letter(request: PageRequest) -> Response:
    """Show one of the listed letters, in full."""
    topic, channel, listing = _listed(request)
    wanted = request.query.optional("id")
    row = next((row for row in listing.rows if row.key == wanted), None)
    return request.show("_letter.html", {"topic": topic, "channel": channel, "row": row})


@in_dialog
async def confirm_job(request: PageRequest) -> Response:
    """Ask in the dialog whether to retry or drop letters, and say which ones."""
    messages_of(request)
    topic = topic_of(request)
    request.context.access.check_user(request.http)
    channel = _channel_of(request.query.optional("channel"))
    of_all = request.query.optional("all")
    ids = () if of_all else _ids(request.http.target.query)
    values = {name: request.query.optional(name)[:_MAX_TEXT] for name in _FIELDS}
    channels = _channels(request, topic)
    shown = {
        "topic": topic,
        "channel": channel,
        "kind": of_all or request.query.optional("kind"),
        "is_all": bool(of_all),
        "ids": ids,
        "fields": values,
        "ages": _AGES,
        "stats": channels.get(channel),
    }
    return request.show("_letters_confirm.html", shown)


@in_place
async def start_job(request: PageRequest) -> Response:
    """Start a job, and close the dialog; or say why it does not start."""
    messages = messages_of(request)
    topic = topic_of(request)
    request.context.access.check_form(request.http)
    found = await read_fields(request.http, most=_MOST_FIELDS)
    fields = {name: values[0].strip()[:_MAX_TEXT] for name, values in found.items()}
    kind, channel, ids = fields.get("kind", ""), _channel_of(fields.get("channel", "")), found.get("id", [])
    try:
        if not is_job_kind(kind):
            raise JobRefused("This action does not exist. Reload the page and try again.")
        if kind == "drop" and not ids and fields.get("name") != topic:
            raise JobRefused(f"Type the name of the topic, {topic}, to drop all letters that match.")
        if not TopicNodes.in_snapshot(request.snapshot, topic, request.context.options.connection).all:
            raise JobRefused("No nsqd has this topic. Reload the page.")
        meant = _filter(fields, ids, letters_only=kind != "list")
        messages.jobs.start(topic, channel, cast("JobKind", kind), meant, limit=len(ids))
    except JobRefused as refusal:
        return request.show("_problem.html", {"problem": str(refusal)}, status=409)
    request.context.actions.record(f"{kind}_dead_letters", topic, channel, "", request.http)
    return _acted(request.show("_problem.html", {"problem": ""}))


@in_place
async def stop_job(request: PageRequest) -> Response:
    """Stop a job."""
    messages = messages_of(request)
    topic = topic_of(request)
    request.context.access.check_form(request.http)
    found = await read_fields(request.http)
    messages.jobs.stop(topic, _channel_of(found.get("channel", [""])[0]))
    return _acted(request.show("_problem.html", {"problem": ""}))


def _acted(response: Response) -> Response:
    """Tell the page to close its dialog and to reload."""
    return Response(
        response.status, response.body, (*response.headers, ("HX-Trigger", "acted, close-dialog"))
    )


def _listed(request: PageRequest) -> tuple[str, str, Listing]:
    messages = messages_of(request)
    topic, channel = topic_of(request), _channel_of(request.query.optional("channel"))
    return topic, channel, messages.jobs.listing(topic, channel) or Listing()


def _channels(request: PageRequest, topic: str) -> Mapping[str, ChannelStats | None]:
    """Return the channels that may hold letters, with their statistics over all nsqds.

    :raises PageError: if no nsqd has the topic
    """
    total = next((each.total for each in request.snapshot.topics if each.total.topic_name == topic), None)
    if total is None:
        raise PageError(404, "No nsqd has this topic", "It may have been deleted. See the list of topics.")
    found: dict[str, ChannelStats | None] = {
        each.channel_name: each for each in total.channels if not is_ephemeral(each.channel_name)
    }
    # The messages of a topic without channels wait for its first channel.
    return found if total.channels else {_DEFAULT_CHANNEL: None}


def _usual(channels: Mapping[str, ChannelStats | None]) -> str:
    return _DEFAULT_CHANNEL if _DEFAULT_CHANNEL in channels else next(iter(channels), _DEFAULT_CHANNEL)


def _channel_of(name: str) -> str:
    if not is_valid_name(name):
        raise PageError(404, "There is no such channel", "Choose one of the topic's channels.")
    return name


def _ids(query: str) -> Sequence[str]:
    return parse_qs(query, max_num_fields=_MOST_FIELDS).get("id", [])


def _filter(fields: Mapping[str, str], ids: Sequence[str], *, letters_only: bool) -> Filter:
    now = time.time()
    age = fields.get("died", "")
    seconds = float(age) if age in _AGES and age else 0.0
    return Filter(
        error=fields.get("error") or None,
        died_before=now - seconds if seconds > 0 else None,
        died_after=now + seconds if seconds < 0 else None,
        topic=fields.get("from_topic") or None,
        channel=fields.get("from_channel") or None,
        keys=frozenset(ids),
        letters_only=letters_only,
    )
