"""Refuses consumers and producers that a forked child has inherited."""

from __future__ import annotations

import os

from ..errors import Closed

_REMEDY = (
    "threads and connections do not survive a fork, so create one in each process, after the fork: in "
    "gunicorn's post_fork, uWSGI's @postfork or with lazy-apps, in the initializer of a multiprocessing "
    "pool, or in Celery's worker_process_init"
)


def check_process(noun: str, process: int) -> None:
    """Check that a consumer or producer was opened in this process.

    :param noun: ``consumer`` or ``producer``
    :param process: the id of the process in which it was opened
    :raises Closed: if that is another process
    """
    if os.getpid() != process:
        raise Closed(
            f"this {noun} was opened in process {process}, and this is process {os.getpid()}, "
            f"forked from it: {_REMEDY}"
        )
