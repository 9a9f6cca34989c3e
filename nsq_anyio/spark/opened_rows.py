"""Rows with the envelopes of their bodies opened, as ``headers=true`` asks for.

The spool has messages as they came, so rows that are put back are published unchanged. Envelopes are opened
when the rows are handed to Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..envelope import MAGIC, decode
from ..errors import InvalidEnvelope
from .options import ReadOptions

_HEADERS = pa.map_(pa.string(), pa.string())

_compute: Any = pc  # its functions are made at run time, and the stubs know only some of them


def opened(batches: Iterator[pa.RecordBatch], options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Return the rows with a column ``headers`` behind ``body``, and payloads as bodies, if it is asked for.

    The headers of a body that is not an envelope are empty. Those of an envelope that cannot be read are
    null, and its body stays as it came: no message may make a query fail for ever.
    """
    return map(_with_headers, batches) if options.headers else batches


def _with_headers(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns: dict[str, Any] = {name: batch.column(name) for name in batch.schema.names}
    headers: list[list[tuple[str, str]] | None]
    if _compute.any(_compute.starts_with(columns["body"], MAGIC)).as_py():
        payloads: list[bytes] = []
        headers = []
        for body in columns["body"].to_pylist():
            try:
                envelope = decode(body)
            except InvalidEnvelope:
                headers.append(None)
                payloads.append(body)
            else:
                headers.append(list(envelope.headers.items()))
                payloads.append(envelope.payload)
        columns["body"] = pa.array(payloads, pa.binary())
    else:
        headers = [[]] * batch.num_rows
    columns["headers"] = pa.array(headers, _HEADERS)
    names = ["body", "headers", *(name for name in batch.schema.names if name != "body")]
    return pa.record_batch([columns[name] for name in names], names=names)
