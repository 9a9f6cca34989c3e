"""What the Markdown files outside of docs/ link to is there; Sphinx checks those in docs/.

All of them are read in the repository as well, where nothing but Markdown works.
"""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted(ROOT.glob("*.md"))
EVERY_PAGE = [
    *PAGES,
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if "_build" not in path.parts),
    *(ROOT / "codec").glob("*.md"),
    *(ROOT / "contrib").glob("*/*.md"),
]
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")
EMPTY = re.compile(r"\[\]\(|<(?:project:|path:|doc:)|(?<![`.])\{[a-z:]+\}`")
"""Links that have a text in Sphinx alone: without one, by its own addresses, and by its roles."""
CONTENTS = re.compile(r"```\{toctree\}\n(.*?)```", re.DOTALL)
FROM_THE_INDEX = re.compile(r"pip install[^`\n]*(?<![\w./-])nsq-anyio")
INSTALLING = {"docs/tutorial.md", "docs/releasing.md"}
"""Pages that say how the package is installed; the others lead to the tutorial."""

each_page = pytest.mark.parametrize("page", EVERY_PAGE, ids=lambda page: page.relative_to(ROOT).as_posix())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    missing = [link for link in LINK.findall(page.read_text("utf-8")) if not (ROOT / link).exists()]
    assert not missing


@each_page
def test_every_link_has_a_text(page: Path) -> None:
    assert EMPTY.findall(page.read_text("utf-8")) == []


@each_page
def test_contents_are_links(page: Path) -> None:
    contents = CONTENTS.findall(page.read_text("utf-8"))
    assert all(":hidden:\n" in content for content in contents)


@each_page
def test_no_page_installs_from_the_index_what_is_not_there(page: Path) -> None:
    if page.relative_to(ROOT).as_posix() not in INSTALLING:
        assert FROM_THE_INDEX.findall(page.read_text("utf-8")) == []


def test_the_pages_are_found() -> None:
    assert {"README.md", "CONTRIBUTING.md", "SECURITY.md"} <= {page.name for page in PAGES}
    assert ROOT / "docs" / "reference" / "consuming.md" in EVERY_PAGE
