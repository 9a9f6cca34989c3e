"""The bodies of a column, encoded for MPUB without an object for each."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..producer.bodies import SIZE_LENGTH, batch_size
from ..protocol.mpub_encoding import EncodedBodies

_compute: Any = pc  # its functions are made at run time, and the stubs know only some of them

# From buffers, as numbers are read below: a value of Python or `to_numpy` would import pandas; see `schema`.
_NOTHING_BETWEEN = pa.Array.from_buffers(
    pa.large_binary(), 1, [None, pa.py_buffer(bytes(16)), pa.py_buffer(b"")]
)[0]


def encoded(bodies: pa.Array[Any], max_rows: int, max_bytes: int) -> Iterator[EncodedBodies]:
    """Cut bodies into MPUBs of bounded rows and bytes; a body that is too large gets its own.

    :param bodies: of Arrow's type large_binary, without nulls
    :param max_bytes: the most bytes of the body of an MPUB
    """
    if not len(bodies):
        return
    framed = _compute.binary_join_element_wise(_sizes(bodies), bodies, _NOTHING_BETWEEN)
    _, offsets, data = framed.buffers()
    offsets, data = memoryview(offsets).cast("q"), memoryview(data)
    rows = len(bodies)
    start = 0
    while start < rows:
        end = min(start + max_rows, rows)
        if batch_size(0, offsets[end] - offsets[start]) > max_bytes:
            end = bisect_right(offsets, offsets[start] + max_bytes - batch_size(0, 0), start, end) - 1
            end = max(end, start + 1)
        yield EncodedBodies(end - start, data[offsets[start] : offsets[end]])
        start = end


def _sizes(bodies: pa.Array[Any]) -> pa.Array[Any]:
    """Return the size of each body as the four bytes that nsqd reads."""
    numbers = np.frombuffer(_compute.binary_length(bodies).buffers()[1], np.int64, len(bodies))
    sizes = pa.Array.from_buffers(
        pa.binary(SIZE_LENGTH), len(bodies), [None, pa.py_buffer(numbers.astype(f">u{SIZE_LENGTH}").data)]
    )
    return sizes.cast(pa.large_binary())
