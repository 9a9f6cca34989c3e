"""The flag ``--header``, of requests over HTTP."""

from __future__ import annotations

import re

from ..errors import InvalidOption

__all__ = ["parse_header"]

# RFC 9110, section 5: a token, and printable ASCII without white space at its ends.
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?")

_EXAMPLE = "use 'Name: value', such as 'X-Source: nsq'"


def parse_header(text: str) -> tuple[str, str]:
    """The name and value of a header.

    :raises InvalidOption: if it is none; the error does not show the value, which may be a secret
    """
    name, _, value = (part.strip() for part in text.partition(":"))
    if not _NAME.fullmatch(name):
        raise InvalidOption(f"a header without a valid name was given: {_EXAMPLE}")
    if not _VALUE.fullmatch(value):
        raise InvalidOption(f"header {name} has no valid value: {_EXAMPLE}")
    return name, value
