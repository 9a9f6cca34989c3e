"""The checks of a publish's arguments.

nsqd closes the connection on an empty or oversized message, and on a defer out of range. Without these checks
one invalid call would close a connection that other calls use.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from ..envelope import encode_headers
from ..errors import InvalidBody
from ..options import ProducerOptions
from ..protocol.codec import plain_size

Body = str | bytes | bytearray | memoryview
"""The types of a message body; a str is encoded as UTF-8."""

_COUNT_LENGTH = 4
SIZE_LENGTH = 4
"""The length in bytes of the size field before each body of an MPUB."""


def check_body(body: Body, options: ProducerOptions) -> bytes:
    """Return the body as bytes.

    :raises InvalidBody: if the body has another type, cannot be encoded, is empty, or exceeds
        ``max_msg_size``
    """
    if type(body) is not bytes:
        body = as_bytes(body)
    if not body:
        raise InvalidBody("an empty body is not valid: use 1 byte or more")
    if len(body) > options.max_msg_size:
        raise InvalidBody(
            f"a body of {len(body)} bytes exceeds max_msg_size={options.max_msg_size}; "
            "raise it together with nsqd's --max-msg-size"
        )
    return body


def as_bytes(body: Body) -> bytes:
    """Return the body as bytes, of any size.

    :raises InvalidBody: if the body has another type, or cannot be encoded
    """
    if isinstance(body, str):
        try:
            return body.encode()
        except UnicodeEncodeError as error:
            raise InvalidBody(
                f"body {body[:40]!r} is not valid: {error.reason} at {error.start}; publish bytes instead"
            ) from error
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    raise InvalidBody(f"body of type {type(body).__name__} is not valid: use str, bytes or memoryview")


def check_bodies(bodies: Iterable[Body], options: ProducerOptions) -> list[bytes]:
    """Return the bodies as a list of bytes.

    :raises InvalidBody: if a body is not valid, there are none, or together they exceed ``max_body_size``
    """
    if isinstance(bodies, str | bytes | bytearray | memoryview) or not isinstance(bodies, Iterable):
        raise InvalidBody("publish_many takes a sequence of bodies: use publish for one")
    given = list(bodies)
    checked = cast("list[bytes]", given)
    total = plain_size(given, options.max_msg_size)
    if total is None:
        checked = [check_body(body, options) for body in given]  # converts each, or raises for an invalid one
        total = sum(map(len, checked))
    if not checked:
        raise InvalidBody("no bodies given: publish_many takes 1 or more")
    size = batch_size(len(checked), total)
    if size > options.max_body_size:
        raise InvalidBody(
            f"{len(checked)} bodies of {size} bytes in all exceed max_body_size={options.max_body_size}; "
            "publish fewer at once, or raise it together with nsqd's --max-body-size"
        )
    return checked


def sealed(body: Body, headers: Mapping[str, str], options: ProducerOptions) -> bytes:
    """Return the body in an envelope with the headers; the body itself if there are none.

    :raises InvalidOption: if an envelope cannot hold the headers
    :raises InvalidBody: as `check_body` does
    """
    return _head(headers) + check_body(body, options)


def sealed_bodies(
    bodies: Iterable[Body], headers: Mapping[str, str], options: ProducerOptions
) -> list[bytes]:
    """Return each of the bodies in an envelope with the headers; the bodies themselves if there are none.

    :raises InvalidOption: if an envelope cannot hold the headers
    :raises InvalidBody: as `check_bodies` does
    """
    head = _head(headers)
    return [head + body for body in check_bodies(bodies, options)]


def _head(headers: Mapping[str, str]) -> bytes:
    head = encode_headers(headers)  # it checks even an empty value that is not a mapping
    return head if headers else b""


def batch_size(messages: int, size: int) -> int:
    """Return the body size of an MPUB, which nsqd compares with --max-body-size.

    :param size: the total size of the message bodies
    """
    return _COUNT_LENGTH + SIZE_LENGTH * messages + size
