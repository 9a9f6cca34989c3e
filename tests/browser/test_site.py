"""The site, as `nox -s docs` has built it: its links, its width on a phone, and who can read it."""

from __future__ import annotations

from collections.abc import Generator
from html.parser import HTMLParser
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urldefrag, urlsplit

import pytest
from playwright.sync_api import Browser, Page

from .axe import severe_findings

SITE = Path(__file__).parents[2] / "docs" / "_build" / "html"
READ_BY_ALL = (
    "index",
    "howto",
    "options",
    "performance",
    "reference/consuming",
    "reference/options",
    "commands/stat",
    "spark",
    "search",
)
"""One page of each kind."""
FAULTS = r"""() => {
    const isWide = (box) => box.scrollWidth > box.clientWidth;
    const isBroken = (code) => /^\w+$/.test(code.textContent) && code.getClientRects().length > 1;
    const those = (selector, isFault) => [...document.querySelectorAll(selector)].filter(isFault);
    return [
        ...those("html", isWide).map(() => "the page is wider than its screen"),
        ...those("[class^=highlight-py] pre", isWide).map((code) => `cut: ${code.textContent}`),
        ...those("td code", isBroken).map((code) => `broken: ${code.textContent}`),
    ];
}"""
"""What does not fit."""
SCREENS: dict[str, tuple[int, Literal["light", "dark"]]] = {"desk": (1280, "light"), "phone": (390, "dark")}


class Reader(HTMLParser):
    """What a page links to, and where others can link to in it."""

    def __init__(self) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.places: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        del tag
        for name, value in attrs:
            if value and name in ("href", "src"):
                self.links.add(value)
            elif value and name == "id":
                self.places.add(value)


@pytest.fixture(scope="module")
def pages() -> dict[Path, Reader]:
    found: dict[Path, Reader] = {}
    for path in sorted(SITE.rglob("*.html")):
        found[path] = Reader()
        found[path].feed(path.read_text("utf-8"))
    assert found, f"{SITE} has no pages: build them with `nox -s docs`"
    return found


@pytest.fixture(params=SCREENS)
def screen(request: pytest.FixtureRequest, browser: Browser) -> Generator[Page]:
    width, scheme = SCREENS[request.param]
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    yield context.new_page()
    context.close()


def test_every_link_within_the_site_leads_somewhere(pages: dict[Path, Reader]) -> None:
    broken: list[str] = []
    for path, page in pages.items():
        for link in page.links:
            address, place = urldefrag(link)
            if urlsplit(address).scheme:
                continue
            target = (path.parent / unquote(urlsplit(address).path)).resolve() if address else path
            known = pages.get(target)
            if not target.exists() or (place and known and unquote(place) not in known.places):
                broken.append(f"{path.relative_to(SITE)}: {link}")
    assert broken == []


def test_every_page_fits_its_screen(pages: dict[Path, Reader], screen: Page) -> None:
    faults: dict[str, list[str]] = {}
    for path in pages:
        screen.goto(path.as_uri())
        if found := screen.evaluate(FAULTS):
            faults[str(path.relative_to(SITE))] = found
    assert faults == {}


@pytest.mark.parametrize("width", [1366, 1440, 1680])
def test_the_contents_have_a_column(browser: Browser, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900})
    for name in ("tutorial", "options", "spark"):
        page.goto((SITE / f"{name}.html").as_uri())
        column = page.locator(".toc-drawer").bounding_box()
        assert column
        assert column["width"] > 200
        assert column["x"] + column["width"] <= width
    page.close()


@pytest.mark.parametrize("name", READ_BY_ALL)
def test_axe_finds_nothing_serious(screen: Page, name: str) -> None:
    screen.goto((SITE / f"{name}.html").as_uri())
    assert severe_findings(screen) == {}
