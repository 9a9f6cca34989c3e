"""How this package's clients connect for a task."""

from __future__ import annotations

import nsq_anyio as nsq
from nsq_anyio.options import TLSOptions

from .task import Task


def connection_options(task: Task) -> nsq.ConnectionOptions:
    """Return what the task asks of the connection, and the defaults."""
    return nsq.ConnectionOptions(
        tls=TLSOptions(ca_file=task.ca_file) if task.ca_file else False,
        snappy=task.compression == "snappy",
        deflate=task.compression == "deflate",
        output_buffer_size=task.output_buffer_size or None,
    )
