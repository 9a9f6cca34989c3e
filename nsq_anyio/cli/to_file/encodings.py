"""How what is written is compressed: not at all, with gzip, or with zstd.

What is compressed forms a whole member (zstd: a frame) each time it is synced. A file is the concatenation of
its members, which gzip, zstd and their libraries read as one. So whatever happens later, all that was
acknowledged stands in members that are complete and carry a checksum.
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
        """What names of such files end in."""
        ...

    def encode(self, data: bytes) -> bytes:
        """Return a whole member, of nothing too."""
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
    :raises InvalidOption: for another level, or if there is no library for it
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
