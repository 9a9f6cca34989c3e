"""Contents of the dialog of actions."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...serving.http_messages import Response
from ...serving.nsq_api import Refusal
from ..actions import Command
from ..results import StepResult, by_server
from . import wording
from .effects import Effects
from .forms import new_number
from .request import PageRequest

_ACTED = ("HX-Trigger", "acted")


def creation(
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


def confirmation(request: PageRequest, effects: Effects, *, error: str = "", status: int = 200) -> Response:
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


def result(request: PageRequest, command: Command, steps: Sequence[StepResult]) -> Response:
    """Show the result of an action on each server."""
    found = by_server(steps)
    has_failed = any(each.state == "failed" for each in found)
    values = {
        "command": command,
        "summary": wording.summary(command, found),
        "rows": [(each, wording.said(command, each)) for each in found],
        "has_failed": has_failed,
        "is_done": any(each.state == "done" for each in found),
    }
    response = request.show(
        "_result.html", values, status=200 if values["is_done"] or not has_failed else 502
    )
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
