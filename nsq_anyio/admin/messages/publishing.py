"""The publish of a form's message to one nsqd, and its outcome."""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import httpx

from ...envelope import encode
from ...errors import HTTPError, HTTPStatusError, HTTPUnavailable, InvalidOption
from ...http import Nsqd
from ...http.servers import Servers
from ...protocol.deep_json import no_constant

_FORMATS = "text, json, hex, base64"

_EXITING = "EXITING"
"""The code of an nsqd that is shutting down."""

_NOT_CONNECTED = (httpx.ConnectError, httpx.ConnectTimeout)


@dataclass(frozen=True, slots=True)
class Target:
    """An nsqd to publish to.

    :ivar name: its name on pages
    :ivar url: the URL of its HTTP API
    """

    name: str
    url: str


@dataclass(frozen=True, slots=True)
class Draft:
    """A message to publish.

    :ivar defer: seconds until nsqd delivers it; None for at once
    """

    body: bytes
    defer: float | None = None

    @classmethod
    def of_form(cls, fields: Mapping[str, str]) -> Draft:
        """Read a form with the fields ``body``, ``format``, ``headers`` and ``defer``.

        Browsers send each line end of a text as CR LF, which becomes LF again.

        :raises InvalidOption: if a field is not valid; the text says what is wrong and what to do
        """
        payload = _payload(fields.get("body", ""), fields.get("format", "text"))
        if not payload:
            raise InvalidOption("The body is empty, which nsqd refuses: write 1 byte or more.")
        headers = _headers(fields.get("headers", ""))
        return cls(encode(payload, headers) if headers else payload, _defer(fields.get("defer", "")))


@dataclass(frozen=True, slots=True)
class PublishOutcome:
    """The outcome of a publish.

    :ivar state: ``stored``: nsqd has it; ``rejected``: nsqd refused it; ``not sent``: certainly not stored;
        ``unknown``: no answer came, so it may or may not be stored
    :ivar node: the name of the nsqd that was asked last
    :ivar reason: what went wrong; empty if nothing did
    :ivar size: of the body in bytes, with its headers
    """

    state: Literal["stored", "rejected", "not sent", "unknown"]
    node: str
    reason: str
    size: int


async def publish(servers: Servers, topic: str, draft: Draft, targets: Sequence[Target]) -> PublishOutcome:
    """Publish to the first nsqd that accepts the message.

    The next nsqd is tried only if the one before has certainly not stored the message.

    :param targets: 1 or more
    """
    outcome = PublishOutcome("not sent", "", "there is no nsqd to send it to", len(draft.body))
    for target in targets:
        outcome = await _publish_to(servers, topic, draft, target)
        if outcome.state in ("stored", "unknown"):
            break
        if outcome.state == "rejected" and outcome.reason != _EXITING:
            break  # the others would refuse it too
    return outcome


async def _publish_to(servers: Servers, topic: str, draft: Draft, target: Target) -> PublishOutcome:
    async def call(nsqd: Nsqd) -> None:
        await nsqd.publish(topic, draft.body, defer=draft.defer)

    answers = await servers.ask_nsqds([target.url], call)
    error = next(iter(answers.failures.values()), None)
    if error is None:
        return PublishOutcome("stored", target.name, "", len(draft.body))
    return PublishOutcome(_state(error), target.name, _reason(error), len(draft.body))


def _state(error: HTTPError) -> Literal["rejected", "not sent", "unknown"]:
    if isinstance(error, HTTPStatusError):
        # nsqd refuses before it stores anything; a proxy in front of it may answer 5xx at any time.
        is_refusal = error.status < httpx.codes.INTERNAL_SERVER_ERROR or error.code == _EXITING
        return "rejected" if is_refusal else "unknown"
    if isinstance(error, HTTPUnavailable) and isinstance(error.__cause__, _NOT_CONNECTED):
        return "not sent"
    return "unknown"


def _reason(error: HTTPError) -> str:
    return (isinstance(error, HTTPStatusError) and error.code) or error.reason


def _payload(text: str, form: str) -> bytes:
    """Return the bytes that a text stands for.

    :raises InvalidOption: if it is not in this format
    """
    compact = "".join(text.split())
    match form:
        case "text":
            return _encoded(text.replace("\r\n", "\n"))
        case "json":
            try:
                json.loads(text, parse_int=str, parse_float=str, parse_constant=no_constant)
            except RecursionError:
                raise InvalidOption("The body is nested too deeply to be checked: send it as text.") from None
            except ValueError as error:
                raise InvalidOption(f"The body is not JSON: {error}.") from None
            return _encoded(text.replace("\r\n", "\n").strip())
        case "hex":
            try:
                return bytes.fromhex(compact)
            except ValueError:
                raise InvalidOption(
                    "The body is not hexadecimal: use two digits of 0-9 and a-f for each byte."
                ) from None
        case "base64":
            try:
                return b64decode(compact, validate=True)
            except (binascii.Error, ValueError):
                raise InvalidOption("The body is not base64: check that no part of it is missing.") from None
        case _:
            raise InvalidOption(f"format={form!r} is not valid: use one of {_FORMATS}.")


def _encoded(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidOption("The body has half of a character: send it as hexadecimal.") from None


def _headers(text: str) -> dict[str, str]:
    headers: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        name, colon, value = line.partition(":")
        name = name.strip().lower()
        if not colon:
            raise InvalidOption(f"Line {number} of the headers has no colon: write each as 'name: value'.")
        if name in headers:
            raise InvalidOption(f"Header {name!r} is given twice.")
        headers[name] = value.strip()
    return headers


def _defer(text: str) -> float | None:
    text = text.strip()
    if not text:
        return None
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= _MAX_DEFER:
        raise InvalidOption(f"The delay {text[:40]!r} is not valid: use 0 or more seconds, at most a year.")
    return seconds or None


_MAX_DEFER = 366 * 86400.0
"""nsqd refuses delays above its own limit, --max-req-timeout, which is an hour by default."""
