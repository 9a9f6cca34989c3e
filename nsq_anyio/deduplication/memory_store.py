"""The store of ids in memory, for the consumers of one process."""

from __future__ import annotations

import time
from collections import OrderedDict
from itertools import islice
from threading import Lock

from ..options.checks import check_integer, check_seconds
from .records import Operation, Record, apply
from .store import Claim, Claimed

_PURGED = 4
"""How many of the oldest ids each call looks at."""


class MemoryStore:
    """Ids in memory. It serves the consumers of one process, in any of its threads, and forgets with it.

    An id takes about 300 bytes.

    :param window: the seconds for which a handled message is remembered, 0.001 or more; default 3600
    :param size: the most ids, 1 or more; default 1,000,000. Beyond that, the oldest are forgotten
    :raises InvalidOption: if a value is out of range
    """

    def __init__(self, *, window: float = 3600.0, size: int = 1_000_000) -> None:
        check_seconds("window", window, 0.001)
        check_integer("size", size, 1)
        self._window = window
        self._size = size
        self._records: OrderedDict[str, Record] = OrderedDict()
        self._lock = Lock()

    def __repr__(self) -> str:
        return f"<MemoryStore {len(self._records)} ids>"

    async def claim(self, claim: Claim, seconds: float) -> Claimed:
        """Hold an id; see `Store.claim`."""
        return self._apply(Operation("claim", claim, seconds))

    async def done(self, claim: Claim) -> None:
        """Note that a message was handled; see `Store.done`."""
        self._apply(Operation("done", claim, self._window))

    async def release(self, claim: Claim, seconds: float) -> None:
        """End a claim; see `Store.release`."""
        self._apply(Operation("release", claim, seconds))

    def _apply(self, operation: Operation) -> Claimed:
        records, id, now = self._records, operation.claim.id, time.monotonic()
        with self._lock:
            answer, record = apply(operation, records.get(id), now)
            if record is None:
                records.pop(id, None)
            else:
                records[id] = record
                if operation.kind == "done":
                    records.move_to_end(id)
            for old in [old for old, each in islice(records.items(), _PURGED) if each.until <= now]:
                del records[old]
            if len(records) > self._size:
                records.popitem(last=False)
        return answer
