"""A disk on which writing fails in the middle of a file."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import pytest


def fail_writes(patch: pytest.MonkeyPatch, code: int, *, after: int = 0) -> None:
    """Let new files take ``after`` whole writes and half of another one, as a disk that gets full does.

    :param code: the ``errno`` of each write after that
    """
    open_file = Path.open
    written = 0

    class FailingFile(io.FileIO):
        def write(self, content: Any, /) -> int:
            nonlocal written
            written += 1
            if written <= after:
                return super().write(content)
            if written == after + 1:
                return super().write(memoryview(content)[: len(content) // 2])
            raise OSError(code, os.strerror(code))

    def open_failing(path: Path, mode: str = "r", *args: Any, **options: Any) -> Any:
        return FailingFile(path, mode) if mode == "xb" else open_file(path, mode, *args, **options)

    patch.setattr(Path, "open", open_failing)
