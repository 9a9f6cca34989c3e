"""Who may see messages."""

from __future__ import annotations

from ...names import is_valid_name
from ..messages.messages import Messages
from .visit import PageError, Visit

__all__ = ["messages_of", "topic_of"]


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
