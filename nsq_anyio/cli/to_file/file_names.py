"""File names made from a format, with placeholders for the topic, the host, the time and so on."""

from __future__ import annotations

import os
import re
import socket
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePosixPath

from ...errors import InvalidOption

REVISION = "<REV>"

_PLACEHOLDER = re.compile(r"<(TOPIC|HOST|PID|DATETIME)>")
_HOST_PLACEHOLDER = re.compile(r"<(SHORT_HOST|HOSTNAME)>")
_ESCAPED_DOT = "%2E"

_DIRECTIVES = "aAbBdFGHIjmMpSTuUVwWyYzZ%"
"""The directives of strftime(3) that mean the same on all systems."""

_DIRECTIVE = re.compile(r"%(.?)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class NameFormat:
    """The format of file names, for all topics.

    :param filename_format: with ``<TOPIC>``, ``<HOST>``, ``<PID>``, ``<DATETIME>``, ``<REV>``; a ``/`` starts
        a directory
    :param datetime_format: the format of ``<DATETIME>``, as for strftime(3)
    :param host_identifier: the format of ``<HOST>``, with ``<SHORT_HOST>`` and ``<HOSTNAME>``; empty for
        the host's name up to its first dot
    :param suffix: appended to names that do not end in it
    :param numbered: whether ``<REV>`` numbers the files of one name; otherwise it is left out
    :raises InvalidOption: if files must be numbered and there is no ``<REV>``, or for an unknown directive of
        ``datetime_format``
    """

    filename_format: str
    datetime_format: str
    host_identifier: str
    suffix: str
    numbered: bool

    def __post_init__(self) -> None:
        check_datetime_format(self.datetime_format)
        if self.numbered and REVISION not in self.filename_format:
            raise InvalidOption(
                f"--filename-format={self.filename_format!r} is not valid: add {REVISION}, which compressed, "
                "rotated and moved files need to never overwrite one another"
            )

    def of_topic(self, topic: str) -> TopicNames:
        """Return the names of the files of one topic."""
        return TopicNames(self, topic)

    def host(self) -> str:
        """Return the value of ``<HOST>`` on this machine."""
        hostname = socket.gethostname()
        values = {"HOSTNAME": hostname, "SHORT_HOST": hostname.partition(".")[0]}
        return _replaced(_HOST_PLACEHOLDER, self.host_identifier or "<SHORT_HOST>", values)


class TopicNames:
    """The names of one topic's files."""

    def __init__(self, name_format: NameFormat, topic: str) -> None:
        self._datetime_format = name_format.datetime_format
        template = name_format.filename_format
        if not name_format.numbered:
            template = template.replace(REVISION, "")
        if not template.endswith(name_format.suffix):
            template += name_format.suffix
        self._template = template
        self._values = {
            "TOPIC": _harmless(topic),
            "HOST": name_format.host(),
            "PID": str(os.getpid()),
        }

    def at(self, moment: datetime) -> str:
        """Return the name at ``moment``, relative to the directory; it still contains ``<REV>``.

        :raises InvalidOption: if the name is outside the directory
        """
        values = self._values | {"DATETIME": format_datetime(self._datetime_format, moment)}
        name = _replaced(_PLACEHOLDER, self._template, values)
        # Like nsq_to_file, take "/a//./b" as "a/b"; unlike it, refuse "../a".
        parts = [part for part in PurePosixPath(name).parts if part.strip("/")]
        if not parts or ".." in parts or name.endswith("/") or "\0" in name:
            raise InvalidOption(
                f"--filename-format gives {name!r}, which is not a file below the directory: remove '..', "
                "and set the directory with --output-dir"
            )
        return "/".join(parts)


def with_revision(name: str, revision: int) -> str:
    """Return the name with ``revision`` in place of ``<REV>``."""
    return name.replace(REVISION, f"-{revision:06d}")


def _replaced(placeholder: re.Pattern[str], text: str, values: dict[str, str]) -> str:
    # In one pass, so that no placeholder within a value is replaced.
    return placeholder.sub(lambda found: values[found[1]], text)


def _harmless(topic: str) -> str:
    """Return the topic's name as a safe path component: nsqd allows the topics ``.`` and ``..``.

    The replacements contain ``%``, which no topic does, so no two topics share a name.
    """
    return _ESCAPED_DOT * len(topic) if topic in {".", ".."} else topic


def check_datetime_format(text: str) -> str:
    """Check a format of times, and return it.

    :raises InvalidOption: if a ``%`` in it begins an unknown directive
    """
    for found in _DIRECTIVE.finditer(text):
        if not found[1] or found[1] not in _DIRECTIVES:
            raise InvalidOption(
                f"--datetime-format={text!r} is not valid: {found[0]!r} is unknown, use % followed by one of "
                f"{' '.join(_DIRECTIVES)}"
            )
    return text


def format_datetime(text: str, moment: datetime) -> str:
    """Expand a checked format, with English names of months and days unless the program sets a locale."""
    # Directive by directive: the other text may be invalid UTF-8, which strftime(3) does not accept.
    return _DIRECTIVE.sub(lambda found: moment.strftime(found[0]), text)
