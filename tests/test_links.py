"""What the Markdown files outside of docs/ link to is there; Sphinx checks those in docs/."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = sorted(ROOT.glob("*.md"))
LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page: Path) -> None:
    missing = [link for link in LINK.findall(page.read_text("utf-8")) if not (ROOT / link).exists()]
    assert not missing


def test_the_pages_are_found() -> None:
    assert {"README.md", "CONTRIBUTING.md", "SECURITY.md"} <= {page.name for page in PAGES}
