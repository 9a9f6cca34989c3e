"""What stands in the pages of docs/ is what their generator makes of the source."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from .generated_pages import DOCS, docs_module

api = docs_module("api")


def test_the_pages_are_up_to_date() -> None:
    pages: dict[Path, str] = dict(docs_module("generate").pages())
    assert {path.relative_to(DOCS).as_posix() for path in pages} >= {"options.md", "reference/consuming.md"}
    stale = [str(page) for page, text in pages.items() if page.read_text("utf-8") != text]
    assert stale == [], "run `python docs/generate.py`"


def test_names_that_differ_in_capitals_alone_have_their_own_places() -> None:
    entries = [api.Entry(name, name, 2, str) for name in ("a.Cluster", "a.cluster")]
    link = docs_module("generate").Places((DOCS / "a.md", entry) for entry in entries).link(DOCS / "b.md")
    assert (link("a.Cluster"), link("a.cluster")) == ("a.md#acluster", "a.md#acluster-1")


PLACES = {"Consumer.run": "consuming.md#consumerrun"}

DOCSTRING = """Say ``what`` it is.

It leads to `Consumer.run`, and 2**3 - 1 is no list::

    await run(
        1
    )

- one
  of two
- two

:param first: the first,
    on two lines
:param hidden: what others need not know; internal
:raises ValueError, TypeError: if it
    fails
:returns: something
"""

MARKDOWN = """\
Say `what` it is.

It leads to [`Consumer.run`](consuming.md#consumerrun), and 2\\*\\*3 - 1 is no list:

```py
await run(
    1
)
```

- one of two
- two

- `first`: the first, on two lines

Raises:

- `ValueError`, `TypeError`: if it fails

Returns:

- something"""


def test_a_docstring_in_markdown() -> None:
    assert api.markdown(DOCSTRING, PLACES.get) == MARKDOWN


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("nsq_anyio.testing.cluster", "def cluster(\n    *,\n    nsqds: int = 2,\n"),
        ("nsq_anyio.Message.keep_alive", "@asynccontextmanager\nasync def keep_alive("),
        ("nsq_anyio.Consumer.pause", "def pause() -> None"),
        ("nsq_anyio.address.Address.parse", "@classmethod\ndef parse(text: str) -> "),
    ],
)
def test_the_signature_of(name: str, shown: str) -> None:
    found = api.signature(api.resolve(name))
    assert found.startswith(shown)
    ast.parse(f"{found}: ...")
