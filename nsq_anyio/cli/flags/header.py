"""The flag ``--header``, of requests over HTTP."""

from __future__ import annotations

import re

from ...errors import InvalidOption

__all__ = ["parse_header"]

# RFC 9110, section 5: a token, and printable ASCII without white space at its ends.
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?")

_FRAMING = frozenset(
    (
        "connection",
        "content-length",
        "http2-settings",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)
"""Those that say where a body ends, or what becomes of the connection: HTTP itself writes them."""

_EXAMPLE = "use 'Name: value', such as 'X-Source: nsq'"


def parse_header(text: str) -> tuple[str, str]:
    """The name and value of a header.

    :raises InvalidOption: if it is none, or one that frames a request; the error does not show the value,
        which may be a secret
    """
    name, _, value = (part.strip() for part in text.partition(":"))
    if not _NAME.fullmatch(name):
        raise InvalidOption(f"a header without a valid name was given: {_EXAMPLE}")
    if not _VALUE.fullmatch(value):
        raise InvalidOption(f"header {name} has no valid value: {_EXAMPLE}")
    if name.lower() in _FRAMING:
        raise InvalidOption(
            f"header {name} cannot be given: it frames the request or rules its connection, so it is written "
            "as each request needs it; leave it out"
        )
    return name, value
