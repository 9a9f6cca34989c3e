"""Compression of files with gzip or zstd.

Each sync completes a member (zstd: a frame). A file is the concatenation of its members, which gzip, zstd and
their libraries read as one stream. So whatever happens later, every finished message is in a complete member
with a checksum.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from ...errors import InvalidOption
from ...options.checks import check_integer

_GZIP_WINDOW = 16 + zlib.MAX_WBITS
"""Makes zlib write gzip's header and trailer."""

_ZSTD_MODULE = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
_CHUNK = 64 * 1024
_ZSTD_MIN_LEVEL, _ZSTD_MAX_LEVEL = 1, 22


class _Decompressor(Protocol):
    """Decompresses one member."""

    @property
    def eof(self) -> bool:
        """Whether the end of the member was reached."""
        ...

    @property
    def unused_data(self) -> bytes:
        """The bytes after the end of the member."""
        ...

    def decompress(self, data: bytes, /) -> bytes:
        """Return the decompressed bytes."""
        ...


class Encoding(Protocol):
    """A compression format."""

    @property
    def suffix(self) -> str:
        """The suffix of the names of compressed files."""
        ...

    def encode(self, data: bytes) -> bytes:
        """Return ``data`` as a complete member, even if it is empty."""
        ...


@dataclass(frozen=True, slots=True)
class Gzip:
    """gzip.

    :param level: 1 (fast) to 9 (small)
    :raises InvalidOption: for another level
    """

    level: int = 6

    def __post_init__(self) -> None:
        check_integer("gzip_level", self.level, 1, 9)

    @property
    def suffix(self) -> str:
        return ".gz"

    def encode(self, data: bytes) -> bytes:
        compressor = zlib.compressobj(self.level, zlib.DEFLATED, _GZIP_WINDOW)
        return compressor.compress(data) + compressor.flush()


@dataclass(frozen=True, slots=True)
class Zstd:
    """Zstandard.

    :param level: 1 (fast) to 22 (small, slow)
    :raises InvalidOption: for another level, or if no zstd library is installed
    """

    level: int = 3

    def __post_init__(self) -> None:
        check_integer("zstd_level", self.level, _ZSTD_MIN_LEVEL, _ZSTD_MAX_LEVEL)
        if not _zstd_is_installed():
            raise InvalidOption("zstd is not installed: pip install 'nsq-anyio[zstd]'")

    @property
    def suffix(self) -> str:
        return ".zst"

    def encode(self, data: bytes) -> bytes:
        zstd = _zstd()
        options: dict[int, int] = {
            zstd.CompressionParameter.compression_level: self.level,
            zstd.CompressionParameter.checksum_flag: 1,
        }
        compressed: bytes = zstd.compress(data, options=options)
        return compressed


def whole_length(path: Path) -> int:
    """Return the length of a file up to the end of its last whole line, or of its last whole member.

    The suffix says whether it has members. A file with a damaged member counts as whole, because the bytes
    after the damage may still be readable. So does a file that cannot be decompressed here, or whose content
    does not match its suffix.

    :raises OSError: if the file cannot be read
    """
    with path.open("rb") as file:
        if path.suffix == ".gz":
            return _whole_members(file, _gzip_decompressor, zlib.error)
        if path.suffix != ".zst":
            return _whole_lines(file)
        if not _zstd_is_installed():
            return file.seek(0, os.SEEK_END)
        zstd = _zstd()
        return _whole_members(file, zstd.ZstdDecompressor, zstd.ZstdError)


def _whole_members(
    file: BinaryIO, decompressor: Callable[[], _Decompressor], damaged: type[Exception]
) -> int:
    whole = 0
    while True:
        file.seek(whole)
        member = decompressor()
        try:
            while not member.eof:
                data = file.read(_CHUNK)
                if not data:
                    return whole
                member.decompress(data)
        except damaged:
            return file.seek(0, os.SEEK_END)
        whole = file.tell() - len(member.unused_data)


def _whole_lines(file: BinaryIO) -> int:
    end = file.seek(0, os.SEEK_END)
    while end:
        begin = max(0, end - _CHUNK)
        file.seek(begin)
        found = file.read(end - begin).rfind(b"\n")
        if found >= 0:
            return begin + found + 1
        end = begin
    return 0


def _gzip_decompressor() -> _Decompressor:
    return zlib.decompressobj(_GZIP_WINDOW)


def _zstd() -> Any:
    """Return the module for zstd, which is an extra before Python 3.14."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


def _zstd_is_installed() -> bool:
    try:
        return importlib.util.find_spec(_ZSTD_MODULE) is not None
    except ModuleNotFoundError:  # the parent package is missing
        return False
