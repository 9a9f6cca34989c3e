"""Headless Chromium, and a page that fails its test for every error in its console."""

from __future__ import annotations

import shutil
from collections.abc import Generator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from ..machine.programs import CHROMIUM
from .stage import Stage, on_stage

_FLAGS = (
    "--no-sandbox",  # which root, as in a container, cannot use
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_LIMIT = 15_000.0  # milliseconds
# htmx reports both for a request that a newer one replaces, as a search replaces a poll. A request that fails
# has another error besides.
_REPLACED = ("htmx:afterRequest", "htmx:sendAbort")
_TIMEOUTS = ("--http-client-request-timeout=2s", "--http-client-connect-timeout=1s")

expect.set_options(timeout=_LIMIT)


@pytest.fixture(scope="session")
def browser() -> Generator[Browser]:
    path = next(filter(None, map(shutil.which, CHROMIUM)), None)
    assert path, f"Chromium is missing: install it, on Debian by `apt-get install {CHROMIUM[0]}`"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*_FLAGS])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def stage() -> Generator[Stage]:
    with on_stage() as running:
        yield running


@pytest.fixture(scope="module")
def dashboard(stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> Generator[str]:
    """The URL of a dashboard in which everybody may act, and which polls often."""
    with stage.dashboard(tmp_path_factory.mktemp("admin"), "--poll-interval=500ms", *_TIMEOUTS) as url:
        yield url


class Watched:
    """Notes what goes wrong in pages, other than requests that a test expects to be refused."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.expected: tuple[str, ...] = ()

    def watch(self, page: Page) -> None:
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("console", self._note)

    def _note(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"{message.type}: {message.text} {message.location.get('url', '')}")

    @property
    def unexpected(self) -> list[str]:
        expected = (*self.expected, *_REPLACED)
        return [each for each in self.problems if not any(text in each for text in expected)]


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.fixture
def page(browser: Browser, watched: Watched) -> Generator[Page]:
    """A page of 1280 pixels, in a context of its own; errors and refusals of the CSP fail the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(_LIMIT)
    page = context.new_page()
    watched.watch(page)
    yield page
    context.close()
    assert watched.unexpected == []


@pytest.fixture
def shots(request: pytest.FixtureRequest) -> Path | None:
    """Where pictures go; None unless ``--shots`` names a directory."""
    name = request.config.getoption("--shots", default=None)
    return Path(str(name)) if name else None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shots", metavar="DIR", help="Where pictures of the pages go.")
