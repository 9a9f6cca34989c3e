"""What NSQ gets of a task's labels: headers, and a delay."""

from __future__ import annotations

import math
from collections.abc import Mapping

from taskiq import BrokerMessage

from ...envelope import MAX_HEADERS, MAX_SIZE, encode_headers
from ...errors import InvalidOption

TASK_ID = "taskiq-task-id"
TASK_NAME = "taskiq-task-name"
_WITHOUT_HEADERS = len(encode_headers({}))


def headers_of(message: BrokerMessage) -> dict[str, str]:
    """Return the headers of a task's message: its id, its name, and its labels as text.

    A label that an envelope cannot hold is left out. taskiq does not miss it: the body has all labels.
    """
    headers: dict[str, str] = {}
    size = 0
    for given, value in ((TASK_ID, message.task_id), (TASK_NAME, message.task_name), *message.labels.items()):
        name, text = str(given).lower(), str(value)
        if name in headers or len(headers) == MAX_HEADERS:
            continue
        try:
            more = len(encode_headers({name: text})) - _WITHOUT_HEADERS
        except InvalidOption:
            continue
        if size + more <= MAX_SIZE:
            headers[name] = text
            size += more
    return headers


def delay_of(labels: Mapping[str, object]) -> float | None:
    """Return the seconds of the label ``delay``; None without one, and if it is None.

    :raises InvalidOption: if it is not a number of 0 or more
    """
    given = labels.get("delay")
    if given in (None, "None"):  # taskiq sends labels as text
        return None
    try:
        delay = float(str(given))
    except ValueError:
        delay = math.nan
    if not 0 <= delay < math.inf:
        raise InvalidOption(f"the label delay={given!r} is not valid: use 0 or more (seconds)")
    return delay
