"""Tables that are searched, filtered, sorted and divided into pages by the query."""

from __future__ import annotations

import math
from collections.abc import Sequence
from urllib.parse import parse_qs

import pytest

from nsq_anyio.admin.pages.listing import Listing, listing
from nsq_anyio.serving.nsq_api import Arguments

Row = tuple[str, float]
ROWS: list[Row] = [("b", 2), ("A", 3), ("c", 1), ("d", math.nan)]


def listed(query: str = "", rows: Sequence[Row] = ROWS, **how: int) -> Listing[Row]:
    return listing(
        rows,
        Arguments(parse_qs(query, keep_blank_values=True)),
        text=lambda row: row[0],
        columns={"name": lambda row: row[0], "size": lambda row: row[1]},
        sort="name",
        filters={"big": ("Big", lambda row: row[1] > 1)},
        **how,
    )


def names(found: Listing[Row]) -> str:
    return "".join(name for name, _ in found.rows)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", "Abcd"),
        ("sort=-name", "dcbA"),
        ("sort=size", "dcbA"),
        ("sort=-size", "Abcd"),
        ("sort=nonsense", "Abcd"),
        ("sort=--size", "Abcd"),
        ("q=a", "A"),
        ("q=%20B%20", "b"),
        ("q=a+b", ""),
        ("filter=big", "Ab"),
        ("filter=nonsense", "Abcd"),
        ("filter=big&q=b&sort=-size", "b"),
    ],
)
def test_the_query_chooses(query: str, expected: str) -> None:
    assert names(listed(query)) == expected


@pytest.mark.parametrize(
    ("page", "expected", "first"),
    [
        ("1", "Ab", 1),
        ("2", "cd", 3),
        ("3", "cd", 3),
        ("0", "Ab", 1),
        ("-1", "Ab", 1),
        ("9" * 5000, "Ab", 1),
        ("x", "Ab", 1),
        ("", "Ab", 1),
        ("\u0662", "Ab", 1),
    ],  # the last one is a digit of Arabic
)
def test_pages(page: str, expected: str, first: int) -> None:
    found = listed(f"page={page}", size=2)
    assert (names(found), found.first, found.pages) == (expected, first, 2)


def test_counts() -> None:
    found = listed("q=b&filter=big")
    assert (found.total, found.matched) == (4, 1)
    assert [(each.label, each.count, each.is_chosen) for each in found.choices] == [
        ("All", 1, False),
        ("Big", 1, True),
    ]
    empty = listed(rows=[])
    assert (empty.total, empty.matched, empty.pages, empty.page) == (0, 0, 1, 1)


def test_links_keep_what_was_chosen() -> None:
    found = listed("q=b%26c&filter=big&sort=-size&page=2")
    assert found.href(page=3) == "?q=b%26c&sort=-size&filter=big&page=3"
    assert found.sort_href("name") == "?q=b%26c&sort=name&filter=big"
    assert found.choices[0].href == "?q=b%26c&sort=-size"


def test_a_column_is_sorted_the_other_way_round_at_the_second_click() -> None:
    # Names from the first, numbers from the largest.
    assert listed().sort_href("size") == "?sort=-size"
    assert listed("sort=-size").sort_href("size") == "?sort=size"
    assert listed("sort=size").sort_href("size") == "?sort=-size"
    assert listed("sort=name").sort_href("name") == "?sort=-name"
    assert listed("sort=-size").direction("size") == "descending"
    assert listed("sort=size").direction("size") == "ascending"
    assert listed("sort=size").direction("name") == ""


def test_a_search_is_bounded() -> None:
    assert len(listed("q=" + "x" * 100_000).search) == 200
