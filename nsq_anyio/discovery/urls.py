"""The URLs of nsqlookupds, as users give them."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import InvalidOption
from ..options.checks import each_of


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
