"""Access to the pages of messages, and their refusals.

Only administrators see messages. A tail that would consume a backlog also needs a token from a form. The form
is checked like an action; the stream, which browsers open by a plain GET, cannot be checked like that.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import TypeAlias

from ...names import is_valid_name
from ...serving.http_messages import Response
from ...serving.nsq_api import Refusal
from ..messages.messages import Messages
from . import wording
from .actions import failure, refusal
from .request import PageError, PageRequest

_Answering: TypeAlias = Callable[[PageRequest], Awaitable[Response]]


def messages_of(request: PageRequest) -> Messages:
    """Return the state of the pages of messages.

    :raises PageError: if they are switched off, or the user may not see messages
    """
    messages = request.context.messages
    if messages is None:
        raise PageError(
            404,
            "Messages are not shown here",
            "The operator has switched them off, with --no-messages. Topics and channels have their figures.",
        )
    if not request.may_read:
        raise PageError(
            403, "Only administrators see messages", "Messages may be confidential. Ask an administrator."
        )
    return messages


def topic_of(request: PageRequest) -> str:
    """Return the topic in the path.

    :raises PageError: if that is no valid name
    """
    topic = request.parameters[0]
    if not is_valid_name(topic):
        raise PageError(
            404, "There is no such topic", "Its name is not one that nsqd accepts. See the list of topics."
        )
    return topic


def in_dialog(endpoint: _Answering) -> _Answering:
    """Show the refusals of ``endpoint`` in the dialog."""

    @wraps(endpoint)
    async def answer(request: PageRequest) -> Response:
        try:
            return await endpoint(request)
        except PageError as error:
            return failure(request, error.status, error.title, error.text)
        except Refusal as refused:
            return refusal(request, refused)

    return answer


def in_place(endpoint: _Answering) -> _Answering:
    """Show the refusals of ``endpoint`` in the form's line for problems."""

    @wraps(endpoint)
    async def answer(request: PageRequest) -> Response:
        try:
            return await endpoint(request)
        except PageError as error:
            return request.show(
                "_problem.html", {"problem": f"{error.title}. {error.text}"}, status=error.status
            )
        except Refusal as refused:
            text = wording.REFUSALS.get(refused.code, f"The server answered {refused.code}.")
            return request.show("_problem.html", {"problem": text}, status=refused.status)

    return answer
