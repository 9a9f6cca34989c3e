"""Tables that are searched, filtered, sorted and divided into pages on the server, by the query."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar
from urllib.parse import urlencode

from ...serving.nsq_api import Arguments

RowT = TypeVar("RowT")

Columns: TypeAlias = Mapping[str, Callable[[RowT], str | float]]
"""The columns of a table: for each name in the query, the value of a row to sort by."""

Filters: TypeAlias = Mapping[str, tuple[str, Callable[[RowT], bool]]]
"""The filters of a table: for each name in the query, its label, and a test for the rows that it keeps."""

PAGE_SIZE = 100


@dataclass(frozen=True, slots=True)
class Choice:
    """A filter that the page offers.

    :ivar count: how many rows it keeps of those that match the search
    """

    label: str
    count: int
    is_chosen: bool
    href: str


@dataclass(frozen=True, slots=True)
class Listing(Generic[RowT]):
    """One page of a table.

    :ivar rows: the rows of this page
    :ivar total: how many rows the table has
    :ivar matched: how many of these match the search and the filter
    :ivar first: the number of the first row that is shown, counted from 1
    """

    rows: Sequence[RowT]
    total: int
    matched: int
    search: str
    sort: str
    filter: str
    page: int
    pages: int
    first: int
    choices: Sequence[Choice]
    descending_first: frozenset[str]

    def href(self, **changes: str | int) -> str:
        """Return the query of this table with changes; without ``page``, it shows the first page."""
        return _href({"q": self.search, "sort": self.sort, "filter": self.filter}, changes)

    def sort_href(self, column: str) -> str:
        """Return the query that sorts by a column, numbers in descending order; then in reverse."""
        order = f"-{column}" if column in self.descending_first else column
        if self.sort == order:
            order = order.removeprefix("-") if order.startswith("-") else f"-{order}"
        return self.href(sort=order)

    def direction(self, column: str) -> str:
        """Return ``ascending`` or ``descending`` for the column that sorts the table; otherwise nothing."""
        if self.sort.removeprefix("-") != column:
            return ""
        return "descending" if self.sort.startswith("-") else "ascending"


def listing(
    rows: Sequence[RowT],
    query: Arguments,
    *,
    text: Callable[[RowT], str],
    columns: Columns[RowT],
    sort: str,
    filters: Filters[RowT] | None = None,
    size: int = PAGE_SIZE,
) -> Listing[RowT]:
    """Return the page of a table that the query asks for.

    The query's parameters are ``q``, words that must all occur; ``filter``; ``sort``, a column, with ``-``
    before it for the largest first; and ``page``. Invalid values are ignored.

    :param text: returns the text of a row that is searched
    :param sort: how the table is sorted unless the query says otherwise
    :param size: how many rows a page has
    """
    filters = filters or {}
    search = query.optional("q").strip()[:200]
    words = search.casefold().split()
    found = (
        [row for row in rows if all(word in text(row).casefold() for word in words)] if words else list(rows)
    )
    chosen = query.optional("filter")
    chosen = chosen if chosen in filters else ""
    asked = query.optional("sort")
    order = asked if asked.removeprefix("-") in columns else sort
    kept = {name: [row for row in found if keeps(row)] for name, (_, keeps) in filters.items()}
    shown = kept[chosen] if chosen else found
    value = columns[order.removeprefix("-")]
    shown = sorted(sorted(shown, key=text), key=_ordered(value), reverse=order.startswith("-"))
    pages = max(math.ceil(len(shown) / size), 1)
    asked_page = query.optional("page")
    page = int(asked_page) if asked_page.isascii() and asked_page.isdigit() and len(asked_page) < 9 else 1
    page = min(max(page, 1), pages)
    given = {"q": search, "sort": asked and order}
    choices = [Choice("All", len(found), not chosen, _href(given, {}))] if filters else []
    choices += [
        Choice(label, len(kept[name]), name == chosen, _href(given, {"filter": name}))
        for name, (label, _) in filters.items()
    ]
    numeric = frozenset(name for name, of in columns.items() if rows and not isinstance(of(rows[0]), str))
    return Listing(
        rows=shown[(page - 1) * size : page * size],
        total=len(rows),
        matched=len(shown),
        search=search,
        sort=order,
        filter=chosen,
        page=page,
        pages=pages,
        first=(page - 1) * size + 1,
        choices=choices,
        descending_first=numeric,
    )


def _ordered(value: Callable[[RowT], str | float]) -> Callable[[RowT], str | float]:
    """Return a sort key, by which an unknown number is the smallest."""

    def key(row: RowT) -> str | float:
        found = value(row)
        if isinstance(found, str):
            return found.casefold()
        return -math.inf if math.isnan(found) else found

    return key


def _href(given: Mapping[str, str], changes: Mapping[str, str | int]) -> str:
    values = {name: value for name, value in {**given, **changes}.items() if value != ""}
    return f"?{urlencode(values, errors='replace')}"
