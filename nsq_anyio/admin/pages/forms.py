"""Forms: their fields, and the commands in them."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import parse_qs

from ...names import is_valid_name
from ...serving.http_messages import BodyTooLarge, Request
from ...serving.nsq_api import Refusal
from ..actions import Command, is_action

_MAX_FORM_SIZE = 16 * 1024
_MAX_FIELDS = 20
_NAME_RULE = (
    "Use 1 to 64 letters, digits, dots, underscores and hyphens, and #ephemeral at the end if you like."
)


class InvalidCommand(Exception):
    """A form's command is not valid; the text says why and what to do, in whole sentences."""


@dataclass(frozen=True, slots=True)
class Form:
    """The fields of a submitted form, each once."""

    fields: dict[str, str]

    @classmethod
    async def read(cls, request: Request) -> Form:
        """Read the body of a request.

        :raises Refusal: 413 if it is too large; 400 if it is no form
        """
        found = await read_fields(request)
        if any(len(values) > 1 for values in found.values()):
            raise Refusal(400, "INVALID_FORM")
        return cls({name: values[0].strip() for name, values in found.items()})

    def get(self, name: str) -> str:
        """Return a field; empty if it is not there."""
        return self.fields.get(name, "")

    def count(self, name: str) -> int:
        """Return a field that counts something; 0 if it is not there, or no count."""
        text = self.get(name)
        return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else 0


async def read_fields(
    request: Request, *, limit: int = _MAX_FORM_SIZE, most: int = _MAX_FIELDS
) -> dict[str, list[str]]:
    """Return the fields of a form, each with its values as they were sent.

    :param limit: the most bytes
    :param most: the most fields
    :raises Refusal: 413 if it is too large; 400 if it is no form
    """
    try:
        body = await request.read(limit)
    except BodyTooLarge:
        raise Refusal(413, "BODY_TOO_BIG") from None
    try:
        text = body.decode("ascii")
        return parse_qs(text, keep_blank_values=True, errors="strict", max_num_fields=most)
    except ValueError:
        raise Refusal(400, "INVALID_FORM") from None


def command_of(field: Callable[[str], str]) -> Command:
    """Return the command in a form or a query.

    :param field: returns a field by its name, empty if it is not there
    :raises InvalidCommand: if it is not valid
    """
    action, topic, channel, node = map(field, ("action", "topic", "channel", "node"))
    if not is_action(action):
        raise InvalidCommand("This action does not exist. Reload the page and try again.")
    for kind, name in (("topic", topic), ("channel", channel)):
        if not is_valid_name(name) and (name or kind == "topic"):
            wrong = f"The name of the {kind} is not valid" if name else f"The {kind} has no name"
            raise InvalidCommand(f"{wrong}. {_NAME_RULE}")
    if action == "tombstone" and not node:
        raise InvalidCommand("A tombstone needs an nsqd. Begin at the page of the node.")
    if action == "tombstone" and channel:
        raise InvalidCommand("A tombstone is for a topic, not for a channel. Begin at the page of the node.")
    if action != "tombstone" and node:
        raise InvalidCommand("Only a tombstone is for a single nsqd. Begin at the page of the topic.")
    return Command(action, topic, channel, node)


def new_number() -> str:
    """Return a random number for a form, by which a repeated submission is recognised."""
    return secrets.token_urlsafe(16)
