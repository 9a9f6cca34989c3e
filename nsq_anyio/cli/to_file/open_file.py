"""A file of lines that is being written."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ...files import sync_directory, sync_file
from .encodings import Encoding

_FLAGS = os.O_WRONLY | os.O_CREAT | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_MODE = 0o666
"""The mode of new files, less the umask, as in nsq_to_file."""


class OpenFile:
    """A file of lines, with syncs and an optional encoding.

    Without an encoding, lines are in the file as soon as they are written. With an encoding, lines wait for
    the next sync, which writes them as a member.

    :param exclusive: whether the file must be new; otherwise lines are appended to an existing file
    :param shared: whether other processes may append to it at the same time; a new file is never shared
    :ivar size: the file's size in bytes; the bytes of this process are counted before compression
    :raises FileExistsError: if the file must be new and exists
    :raises OSError: if the file cannot be opened otherwise
    """

    def __init__(self, path: Path, encoding: Encoding | None, *, exclusive: bool, shared: bool) -> None:
        self.path = path
        self._shared = shared and not exclusive
        self._encoding = encoding
        self._waiting: list[bytes] = []
        self._unsynced = False
        self._named = False
        self._descriptor = os.open(path, _FLAGS | (os.O_EXCL if exclusive else os.O_APPEND), _MODE)
        self.size: int = os.fstat(self._descriptor).st_size
        self._length = self._synced_length = self.size
        # A killed process may have left a partial line, which would merge with this process's first line.
        self._lead = b"\n" if self.size and _last_byte(path) != b"\n" else b""
        self._is_open = True

    def write(self, bodies: Sequence[bytes]) -> None:
        """Add a line for each body.

        :raises OSError: if that fails; after that, only `abandon` may be called
        """
        lines = b"\n".join([*bodies, b""])
        if self._encoding is not None:
            self._waiting.append(lines)
        else:
            self._write(self._lead + lines)
            self._lead = b""
        self._unsynced = True
        self.size += len(lines)

    def sync(self) -> None:
        """Sync the file: return once everything written survives a crash of the machine.

        :raises OSError: if that fails; after that, only `abandon` may be called
        """
        if not self._unsynced:
            return
        if self._encoding is not None:
            self._write(self._encoding.encode(b"".join(self._waiting)))
            self._waiting.clear()
        sync_file(self._descriptor)
        if not self._named:
            sync_directory(self.path.parent)
            self._named = True
        self._synced_length = os.fstat(self._descriptor).st_size
        self._unsynced = False

    def close(self) -> None:
        """Sync and close the file.

        :raises OSError: if that fails; after that, only `abandon` may be called
        """
        if self._encoding is not None and not self.size:
            self._unsynced = True  # a file without any member would not be a valid compressed file
        self.sync()
        self._close()

    def abandon(self) -> bool:
        """Close the file after an error; keep what was synced, without partial lines or members.

        A shared file is left as it is; the next process that appends to it ends the partial line.

        :return: whether an intact file is left; if not, it was removed, or its last line may be partial
        :raises OSError: if that fails
        """
        if not self._is_open:
            return True
        try:
            if self._shared or os.fstat(self._descriptor).st_size != self._length:
                return False  # truncating would remove other processes' lines as well
            os.ftruncate(self._descriptor, self._synced_length)
        finally:
            self._close()
        if not self._synced_length:
            self.path.unlink()
            return False
        return self._encoding is not None or _last_byte(self.path) == b"\n"

    def _close(self) -> None:
        self._is_open = False
        os.close(self._descriptor)

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            written = os.write(self._descriptor, rest)
            self._length += written
            rest = rest[written:]


def _last_byte(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1)
