"""Topic and channel names, checked before they can reach the wire.

nsqd accepts 1 to 64 characters of ``[.a-zA-Z0-9_-]``, of which the last ten may be ``#ephemeral``.
The check is a full match: with ``$``, a name could end in a newline and so inject a second command.
"""

from __future__ import annotations

import re

from .errors import InvalidName

MAX_NAME_LENGTH = 64
EPHEMERAL_SUFFIX = "#ephemeral"

_NAME = re.compile(r"[.a-zA-Z0-9_-]+(#ephemeral)?", re.ASCII)


def is_valid_name(name: str) -> bool:
    """Return whether nsqd would accept ``name`` as a topic or channel."""
    return len(name) <= MAX_NAME_LENGTH and _NAME.fullmatch(name) is not None


def is_ephemeral(name: str) -> bool:
    """Return whether nsqd keeps this topic or channel in memory only and drops it with its last client."""
    return name.endswith(EPHEMERAL_SUFFIX)


def check_topic(name: str) -> str:
    """Return ``name``.

    :raises InvalidName: if it is not a valid topic name
    """
    return _check("topic", name)


def check_channel(name: str) -> str:
    """Return ``name``.

    :raises InvalidName: if it is not a valid channel name
    """
    return _check("channel", name)


def _check(kind: str, name: str) -> str:
    if not isinstance(name, str):
        raise InvalidName(f"{kind} {name!r} is not valid: use a string")
    if not is_valid_name(name):
        raise InvalidName(
            f"{kind} {name!r} is not valid: use 1 to {MAX_NAME_LENGTH} characters of [.a-zA-Z0-9_-], "
            f"optionally ending in {EPHEMERAL_SUFFIX!r}"
        )
    return name
