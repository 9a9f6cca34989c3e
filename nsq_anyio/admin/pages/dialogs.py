"""What the dialog of actions shows."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...serving.http_messages import Response
from ...serving.nsq_api import Refusal
from ..actions import Order
from ..results import Outcome, results
from . import wording
from .effects import Effects
from .forms import new_number
from .request import Visit

_ACTED = ("HX-Trigger", "acted")


def creation(visit: Visit, topic: str, channel: str, *, error: str = "", status: int = 200) -> Response:
    """Ask for the names of what is to be created.

    :param error: what is wrong with the names; empty if nothing is
    """
    values = {
        "topic": topic,
        "channel": channel,
        "explanation": wording.creation(has_nsqlookupds=bool(visit.site.upstream.nsqlookupds)),
        "error": error,
        "number": new_number(),
    }
    return visit.show("_create.html", values, status=status)


def confirmation(visit: Visit, effects: Effects, *, error: str = "", status: int = 200) -> Response:
    """Show what an action would affect, and ask whether to do it.

    :param error: why it was not done yet; empty if nobody has asked for that
    """
    order = effects.order
    values = {
        "order": order,
        "effects": effects,
        "title": wording.heading(order),
        "sentences": wording.explanation(effects),
        "button": wording.button(order),
        "pattern": re.escape(effects.name_to_type).replace("\\#", "#"),  # which browsers refuse
        "error": error,
        "number": new_number(),
    }
    return visit.show("_confirm.html", values, status=status)


def result(visit: Visit, order: Order, outcomes: Sequence[Outcome]) -> Response:
    """Show what came of an action, on each server."""
    found = results(outcomes)
    has_failed = any(each.state == "failed" for each in found)
    values = {
        "order": order,
        "summary": wording.summary(order, found),
        "rows": [(each, wording.said(order, each)) for each in found],
        "has_failed": has_failed,
        "is_done": any(each.state == "done" for each in found),
    }
    response = visit.show("_result.html", values, status=200 if values["is_done"] or not has_failed else 502)
    return Response(response.status, response.body, (*response.headers, _ACTED))


def failure(visit: Visit, status: int, title: str, text: str, details: Sequence[str] = ()) -> Response:
    """Say why nothing can be done."""
    return visit.show("_failure.html", {"title": title, "text": text, "details": details}, status=status)


def refusal(visit: Visit, refused: Refusal) -> Response:
    """Say why the request was refused."""
    text = wording.REFUSALS.get(refused.code, f"The server answered {refused.code}, so nothing was done.")
    return failure(visit, refused.status, "This was refused", text)
