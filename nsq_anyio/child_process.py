"""The end of a child process that a handler has forked, when the handler returns in it.

Only the thread that forks exists in the child. The handler's caller would wait there for an event loop that
the child does not have.
"""

from __future__ import annotations

import os
import sys
import traceback
from typing import NoReturn


def end_child(error: BaseException | None) -> NoReturn:
    """End this process like a child of `multiprocessing`: without exit handlers, which belong to the parent.

    The exit code is 0, that of `SystemExit`, or 1 after another error, whose traceback is printed.

    :param error: the exception of the handler in the child; None if it returned
    """
    code = 0
    try:
        match error:
            case None | SystemExit(code=None):
                pass
            case SystemExit(code=int() as code):
                pass
            case _:
                code = 1
                traceback.print_exception(error)
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # as under pythonw
                stream.flush()
    finally:
        os._exit(code & 0xFF)
