"""Compress files with gzip or zstd.

Each sync completes a member (zstd: a frame). A file is the concatenation of its members, which gzip, zstd and
their libraries read as one. So whatever happens later, every finished message is in a complete member with a
checksum.
"""

from __future__ import annotations

import importlib.util
import sys
import zlib
from dataclasses import dataclass
from typing import Protocol

from ...checks import check_integer
from ...errors import InvalidOption

__all__ = ["Encoding", "Gzip", "Zstd"]

_GZIP_WINDOW = 16 + zlib.MAX_WBITS
"""Makes zlib write gzip's header and trailer."""

_ZSTD_MODULE = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
_ZSTD_MIN_LEVEL, _ZSTD_MAX_LEVEL = 1, 22


class Encoding(Protocol):
    """A way to compress."""

    @property
    def suffix(self) -> str:
        """The suffix of such files' names."""
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
        """See `Encoding`."""
        return ".gz"

    def encode(self, data: bytes) -> bytes:
        """See `Encoding`."""
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
        """See `Encoding`."""
        return ".zst"

    def encode(self, data: bytes) -> bytes:
        """See `Encoding`."""
        if sys.version_info >= (3, 14):
            from compression import zstd  # an extra, for this class alone
        else:
            from backports import zstd
        options: dict[int, int] = {
            zstd.CompressionParameter.compression_level: self.level,
            zstd.CompressionParameter.checksum_flag: 1,
        }
        return zstd.compress(data, options=options)


def _zstd_is_installed() -> bool:
    try:
        return importlib.util.find_spec(_ZSTD_MODULE) is not None
    except ModuleNotFoundError:  # of the package around it
        return False
