"""The error codes that nsqd 1.3.0 sends, and their meaning for the connection."""

from __future__ import annotations

import re

from ..errors import PermanentRefusal, ServerError

FAILED_RESPONSE_CODES = frozenset({"E_FIN_FAILED", "E_REQ_FAILED", "E_TOUCH_FAILED"})
"""These answer no request and leave the connection open: the message was no longer in flight."""

PERMANENT_CODES = frozenset(
    {
        "E_AUTH_DISABLED",
        "E_AUTH_ERROR",
        "E_AUTH_FAILED",
        "E_AUTH_FIRST",
        "E_BAD_BODY",
        "E_BAD_CHANNEL",
        "E_BAD_PROTOCOL",
        "E_BAD_TOPIC",
        "E_IDENTIFY_FAILED",
        "E_INVALID",
        "E_UNAUTHORIZED",
    }
)
"""In a handshake, nsqd answers every retry with the same code."""

AUTH_FAILURE_CODES = frozenset({"E_AUTH_ERROR", "E_AUTH_FAILED"})
"""The secret is wrong, or nsqd cannot reach its auth server: nsqd sends the same codes for both."""

FATAL_CODES = PERMANENT_CODES | {
    "E_BAD_MESSAGE",
    "E_DPUB_FAILED",
    "E_MPUB_FAILED",
    "E_PUB_FAILED",
    "E_SUB_FAILED",
}
"""nsqd closes the connection after these. An unknown code counts as fatal too."""

_MAX_ERROR = 1024
"""Bytes. nsqd's own texts have at most a few hundred; a frame may have megabytes."""

_MESSAGE_ID = re.compile(r"(?:FIN|REQ|TOUCH) ([!-~]{16}) failed")


def parse_error(data: bytes, *, handshake: bool = False) -> ServerError:
    """Parse the data of an error frame: ``CODE`` or ``CODE text``.

    Of a long text, only the beginning is kept, which can be shown and logged.

    :param handshake: whether the frame answers IDENTIFY, AUTH or SUB, for which some codes are permanent
    """
    code, _, detail = data[:_MAX_ERROR].decode("utf-8", "backslashreplace").partition(" ")
    if handshake and code in PERMANENT_CODES:
        return PermanentRefusal(code, detail)
    return ServerError(code, detail, fatal=code not in FAILED_RESPONSE_CODES)


def failed_message_id(error: ServerError) -> bytes | None:
    """Return the id of the message whose FIN, REQ or TOUCH failed; nsqd writes it after the code."""
    match = _MESSAGE_ID.search(error.detail)
    return match[1].encode("ascii") if match and error.code in FAILED_RESPONSE_CODES else None
