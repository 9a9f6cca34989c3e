"""The headers of a request. Their values may be secrets, so no error shows one."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import httpx

from ..errors import HTTPError, HTTPUnavailable, InvalidOption
from ..options import default_user_agent
from .url import ServerURL

Authorization: TypeAlias = Callable[[], str | Awaitable[str]]
"""A plain or async function that returns the header ``Authorization``, called before each request."""

_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?")


def checked_headers(url: ServerURL, given: Mapping[str, str]) -> httpx.Headers:
    """Return the headers of all requests to ``url``.

    :raises InvalidOption: if one of ``given`` cannot be sent
    """
    headers = httpx.Headers(
        {
            "User-Agent": default_user_agent(),
            # Without this, nsq before 1.0 wraps its replies in {"status_code": ..., "data": ...}.
            "Accept": "application/vnd.nsq; version=1.0",
            "Accept-Encoding": "identity",
        }
    )
    if url.authorization is not None:
        headers["Authorization"] = url.authorization
    for name, value in given.items():
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise InvalidOption(f"header name {name!r} is not valid: use letters, digits and '-'")
        if not _is_value(value):
            raise InvalidOption(f"the value of header {name} is not valid: use printable ASCII on one line")
        headers[name] = value
    return headers


async def authorized(
    headers: httpx.Headers, authorization: Authorization | None, shown: str
) -> httpx.Headers:
    """Return ``headers``, with the header ``Authorization`` that the function returns now.

    :param shown: the URL of the request, for errors
    :raises HTTPUnavailable: if the function raises, or returns something that cannot be sent
    """
    if authorization is None:
        return headers
    try:
        returned = authorization()
        value = await returned if inspect.isawaitable(returned) else returned
    except HTTPError:
        raise
    except Exception as error:
        reason = f"not asked: the function authorization raised {type(error).__name__}"
        raise HTTPUnavailable(shown, reason) from error
    if not _is_value(value):
        raise HTTPUnavailable(
            shown, "not asked: the header Authorization must be printable ASCII on one line"
        )
    headers = headers.copy()
    headers["Authorization"] = value
    return headers


def _is_value(value: object) -> bool:
    return isinstance(value, str) and _VALUE.fullmatch(value) is not None
