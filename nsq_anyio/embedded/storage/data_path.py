"""The directory with the files of an nsqd, and its lock."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from ...errors import NSQError
from ...files import locked_directory


class DataPathUnusable(NSQError):
    """The data path of an nsqd cannot be used.

    It is missing, not writable, or in use by another nsqd; or not everything could be stored at the end.

    :ivar path: the data path
    :ivar reason: what is wrong with it
    """

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        super().__init__(f"cannot use data path {os.fspath(path)}: {reason}")
        self.path: str = os.fspath(path)
        self.reason: str = reason


@contextmanager
def locked(path: Path) -> Generator[None]:
    """Lock a directory, so that no other nsqd uses it.

    :raises DataPathUnusable: if it does not exist, or another nsqd has locked it
    """
    with ExitStack() as stack:
        try:
            stack.enter_context(locked_directory(path))
        except BlockingIOError as error:
            raise DataPathUnusable(path, "it is locked, perhaps by another nsqd that uses it") from error
        except OSError as error:
            raise DataPathUnusable(path, error.strerror or str(error)) from error
        yield
