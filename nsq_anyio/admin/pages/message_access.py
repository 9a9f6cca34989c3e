"""Who may see messages, and how refusals are shown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import TypeAlias

from ...names import is_valid_name
from ...serving.http_messages import Response
from ...serving.nsq_api import Refusal
from ..messages.messages import Messages
from . import dialogs, wording
from .request import PageError, Visit

_Answering: TypeAlias = Callable[[Visit], Awaitable[Response]]


def messages_of(visit: Visit) -> Messages:
    """Return the message views.

    :raises PageError: if they are switched off, or the visitor may not see messages
    """
    messages = visit.site.messages
    if messages is None:
        raise PageError(
            404,
            "Messages are not shown here",
            "The operator has switched them off, with --no-messages. Topics and channels have their figures.",
        )
    if not visit.may_read:
        raise PageError(
            403, "Only administrators see messages", "Messages may be confidential. Ask an administrator."
        )
    return messages


def topic_of(visit: Visit) -> str:
    """Return the topic in the path.

    :raises PageError: if that is no valid name
    """
    topic = visit.parameters[0]
    if not is_valid_name(topic):
        raise PageError(
            404, "There is no such topic", "Its name is not one that nsqd accepts. See the list of topics."
        )
    return topic


def in_dialog(endpoint: _Answering) -> _Answering:
    """Show in the dialog why ``endpoint`` refuses."""

    @wraps(endpoint)
    async def answer(visit: Visit) -> Response:
        try:
            return await endpoint(visit)
        except PageError as error:
            return dialogs.failure(visit, error.status, error.title, error.text)
        except Refusal as refusal:
            return dialogs.refusal(visit, refusal)

    return answer


def in_place(endpoint: _Answering) -> _Answering:
    """Show in a line why ``endpoint`` refuses, where the form has its place for that."""

    @wraps(endpoint)
    async def answer(visit: Visit) -> Response:
        try:
            return await endpoint(visit)
        except PageError as error:
            return visit.show(
                "_problem.html", {"problem": f"{error.title}. {error.text}"}, status=error.status
            )
        except Refusal as refusal:
            text = wording.REFUSALS.get(refusal.code, f"The server answered {refusal.code}.")
            return visit.show("_problem.html", {"problem": text}, status=refusal.status)

    return answer
