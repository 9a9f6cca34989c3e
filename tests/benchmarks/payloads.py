"""The bodies that the broker is filled with: events as JSON, since compression is measured with them too."""

from __future__ import annotations

import json
import random
import struct
from functools import lru_cache

_WORDS = ("click", "view", "search", "order", "basket", "login", "logout", "refund", "share", "follow")


@lru_cache(maxsize=4)
def mpub_body(size: int, messages: int) -> bytes:
    """Return what HTTP's /mpub?binary=true takes: `messages` bodies of `size` bytes each."""
    source = random.Random(size)  # the same at each run
    encoded = b"".join(struct.pack(">I", size) + event(source, size) for _ in range(messages))
    return struct.pack(">I", messages) + encoded


def event(source: random.Random, size: int) -> bytes:
    """Return one event; text of the same kind fills it up to its size."""
    fields = {"id": f"{source.getrandbits(48):012x}", "type": source.choice(_WORDS)}
    text = json.dumps(fields)
    while len(text) < size:
        text += f', "{source.choice(_WORDS)}": {source.randrange(1_000_000)}'
    return text[:size].encode()
