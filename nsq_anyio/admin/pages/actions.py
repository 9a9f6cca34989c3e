"""The dialog of actions: ``/confirm`` shows the effects, ``/actions`` performs the command."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial

from ...serving.http_messages import Response
from ...serving.nsq_api import Refusal
from ..actions import Command
from ..api.cluster_info import ClusterInfo, StepResult, UnknownNode, UpstreamError, by_server
from . import wording
from .effects import Effects, find_effects, holders_in
from .forms import Form, InvalidCommand, command_of, new_number
from .rendering import segment
from .request import PageRequest


async def confirm(request: PageRequest) -> Response:
    """Answer ``/confirm?action=&topic=&channel=&node=`` with the dialog's content."""
    query = request.query.optional
    if "hx-request" not in request.http.headers:
        place = f"/topics/{segment(query('topic'))}" if query("topic") else "/"
        return Response(303, headers=(("Location", request.root + place), ("Cache-Control", "no-store")))
    try:
        request.context.access.check_user(request.http)
        if query("action") == "create":
            return _creation(request, query("topic"), query("channel"))
        command = command_of(query)
    except Refusal as refused:
        return refusal(request, refused)
    except InvalidCommand as error:
        return failure(request, 400, "This cannot be done", str(error))
    async with request.context.upstream.used("action") as servers:
        cluster = ClusterInfo(servers, holders_in(request.snapshot))
        return await _confirm(request, cluster, command)


async def _confirm(request: PageRequest, cluster: ClusterInfo, command: Command) -> Response:
    title = wording.heading(command)
    try:
        effects = await find_effects(cluster, command)
    except UnknownNode:
        return failure(request, 404, title, wording.UNKNOWN_NODE)
    except UpstreamError:
        found = by_server(cluster.results)
        if all(each.state == "absent" for each in found):
            return failure(request, 404, title, wording.NOBODY_HAS_IT)
        details = [f"{each.server}: {wording.said(command, each)}" for each in found]
        return failure(request, 502, title, wording.NOBODY_KNOWS, details)
    return _confirmation(request, effects)


async def act(request: PageRequest) -> Response:
    """Answer the dialog's form with the next content of the dialog."""
    try:
        request.context.access.check_form(request.http)
        form = await Form.read(request.http)
    except Refusal as refused:
        return refusal(request, refused)
    return await request.context.submit(form.get("number"), partial(_act, request, form))


async def _act(request: PageRequest, form: Form) -> Response:
    try:
        command = command_of(form.get)
    except InvalidCommand as error:
        if form.get("action") == "create":
            names = form.get("topic"), form.get("channel")
            return _creation(request, *names, error=str(error), status=400)
        return failure(request, 400, "This cannot be done", str(error))
    async with request.context.upstream.used("action") as servers:
        holders = holders_in(request.snapshot)
        before, cluster = ClusterInfo(servers, holders), ClusterInfo(servers, holders)
        try:
            unconfirmed = await _unconfirmed(before, command, form)
            if unconfirmed is not None:
                reason = wording.not_done_yet(unconfirmed, form.get("typed"), form.count("messages"))
                return _confirmation(request, unconfirmed, error=reason, status=409)
            await request.context.actions.perform(cluster, request.http, command)
        except UnknownNode:
            return failure(request, 404, wording.heading(command), wording.UNKNOWN_NODE)
        except UpstreamError:
            cluster.log_warnings()
    return _result(request, command, cluster.results or before.results)


async def _unconfirmed(cluster: ClusterInfo, command: Command, form: Form) -> Effects | None:
    """Return the effects if they have to be confirmed again; None if the command may be performed.

    A name has to be typed and was not, or much more would be lost than the dialog has shown: messages come in
    while it is open.
    """
    if not command.discards:
        return None
    effects = await find_effects(cluster, command)
    is_typed = effects.name_to_type in ("", form.get("typed"))
    has_grown = effects.exceed(form.count("messages"), form.count("consumers"))
    return effects if has_grown or not is_typed else None


_ACTED = ("HX-Trigger", "acted")


def _creation(
    request: PageRequest, topic: str, channel: str, *, error: str = "", status: int = 200
) -> Response:
    """Ask for the names of a new topic and channel.

    :param error: what is wrong with the names; empty if they are valid
    """
    values = {
        "topic": topic,
        "channel": channel,
        "explanation": wording.creation(has_nsqlookupds=bool(request.context.upstream.nsqlookupds)),
        "error": error,
        "number": new_number(),
    }
    return request.show("_create.html", values, status=status)


def _confirmation(request: PageRequest, effects: Effects, *, error: str = "", status: int = 200) -> Response:
    """Show what an action would affect, and ask whether to do it.

    :param error: why the action was not done yet; empty at first
    """
    command = effects.command
    values = {
        "command": command,
        "effects": effects,
        "title": wording.heading(command),
        "sentences": wording.explanation(effects),
        "button": wording.button(command),
        "pattern": re.escape(effects.name_to_type).replace("\\#", "#"),  # browsers refuse \#
        "error": error,
        "number": new_number(),
    }
    return request.show("_confirm.html", values, status=status)


def _result(request: PageRequest, command: Command, steps: Sequence[StepResult]) -> Response:
    """Show the result of an action on each server."""
    found = by_server(steps)
    values = {
        "command": command,
        "summary": wording.summary(command, found),
        "rows": [(each, wording.said(command, each)) for each in found],
        "remedy": wording.remedy(command, found),
        "is_done": any(each.state == "done" for each in found),
    }
    status = 200 if values["is_done"] or not values["remedy"] else 502
    response = request.show("_result.html", values, status=status)
    return Response(response.status, response.body, (*response.headers, _ACTED))


def failure(
    request: PageRequest, status: int, title: str, text: str, details: Sequence[str] = ()
) -> Response:
    """Say why the action is impossible."""
    return request.show("_failure.html", {"title": title, "text": text, "details": details}, status=status)


def refusal(request: PageRequest, refused: Refusal) -> Response:
    """Say why the request was refused."""
    text = wording.REFUSALS.get(refused.code, f"The server answered {refused.code}, so nothing was done.")
    return failure(request, refused.status, "This was refused", text)
