"""Discovery of nsqds through nsqlookupds, for consumers and producers.

`Discovery` is in a separate module, which is loaded lazily: a program that names its nsqds needs only
`nsqlookupd_urls`, and must not import httpx.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..errors import InvalidOption
from ..lazy_imports import importer
from ..options.checks import each_of

if TYPE_CHECKING:
    from .discovery import Discovery

__all__ = ["Discovery", "nsqlookupd_urls"]


def nsqlookupd_urls(value: str | Sequence[str] | None) -> tuple[str, ...]:
    """Check one URL or a sequence of them, and return them without duplicates; none for None.

    :raises InvalidOption: if the sequence is empty
    :raises InvalidAddress: if a URL is not valid
    """
    if value is None:
        return ()
    urls = tuple(dict.fromkeys(each_of(value)))
    if not urls:
        raise InvalidOption("nsqlookupd is empty: name at least one URL, such as 'http://127.0.0.1:4161'")
    from ..http import Nsqlookupd  # noqa: PLC0415 - httpx takes longer to import than all the rest

    for url in urls:
        Nsqlookupd(url)  # which checks the URL
    return urls


__getattr__: Callable[[str], object] = importer(__name__, {".discovery": ("Discovery",)})
