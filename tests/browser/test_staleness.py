"""A page says when what it shows is old, whatever the reason, and is live again by itself."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Route, expect

from .conftest import Watched
from .stage import Stage, until, visit

SOON = 20.0
"""Seconds within which a page says that it is old."""
_HEALED = 20_000.0
_POLLS = "--poll-interval=500ms"
_HIDE = """(isHidden) => {
    Object.defineProperty(document, "hidden", {get: () => isHidden, configurable: true});
    document.dispatchEvent(new Event("visibilitychange"));
}"""


def say_old(*pages: Page) -> None:
    """Expect that all of the pages say within 20 seconds that they are old."""
    end = time.monotonic() + SOON
    for page in pages:
        left = max(end - time.monotonic(), 0.1) * 1000
        expect(page.locator("#connection")).to_contain_text(
            re.compile(r"Old: .* \d\d:\d\d:\d\d"), timeout=left
        )
        assert page.locator("#connection").get_attribute("role") == "status"
        assert page.evaluate("document.body.classList.contains('stale')")


def heal(*pages: Page) -> None:
    """Expect that all of the pages are live again, and show new figures."""
    for page in pages:
        expect(page.locator("#connection")).to_be_empty(timeout=_HEALED)
        is_live(page)


def is_live(page: Page) -> None:
    """Expect that new figures come."""
    shown = page.locator("#status time").get_attribute("datetime")
    assert shown
    expect(page.locator("#status time")).not_to_have_attribute("datetime", shown)
    assert page.locator("#connection").inner_text() == ""


def another_browser(browser: Browser, url: str) -> tuple[BrowserContext, Page]:
    context = browser.new_context()
    page = context.new_page()
    page.goto(url)
    is_live(page)
    return context, page


def test_a_page_that_hears_nothing_says_so(
    browser: Browser, stage: Stage, dashboard: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("stopped")
    with (
        stage.dashboard_process(directory, _POLLS) as (stopped, process),
        stage.proxy(dashboard) as hole,
        stage.proxy(dashboard) as buffering,
    ):
        contexts, pages = zip(
            *(another_browser(browser, url) for url in (stopped, hole.url, buffering.url)), strict=True
        )
        process.send_signal(signal.SIGSTOP)
        stage.call(hole.set, "hole")
        stage.call(buffering.set, "buffering")
        say_old(*pages)
        process.send_signal(signal.SIGCONT)
        stage.call(hole.set, "")
        stage.call(buffering.set, "")
        heal(*pages)
        for context in contexts:
            context.close()


def test_a_page_survives_a_bad_gateway_while_hidden(browser: Browser, stage: Stage, dashboard: str) -> None:
    with stage.proxy(dashboard) as early, stage.proxy(dashboard) as late:
        contexts, pages = zip(*(another_browser(browser, each.url) for each in (early, late)), strict=True)
        for page in pages:
            page.evaluate(_HIDE, arg=True)
        stage.call(early.set, "502")  # while the hidden page still has its stream
        pages[0].wait_for_timeout(6000)  # the stream is opened again, and fails again
        pages[0].evaluate(_HIDE, arg=False)
        say_old(pages[0])
        stage.call(early.set, "")
        until(lambda: late.streams == 0, "a page that stays hidden gives up its stream")
        stage.call(late.set, "502")
        pages[1].evaluate(_HIDE, arg=False)
        say_old(pages[1])
        stage.call(late.set, "")
        heal(*pages)
        for context in contexts:
            context.close()


def test_a_page_is_live_when_one_goes_back_to_it(page: Page, dashboard: str) -> None:
    page.goto(dashboard)
    is_live(page)
    page.goto(f"{dashboard}/nodes")
    page.go_back()
    is_live(page)


def test_messages_come_again_after_a_bad_gateway(
    page: Page, stage: Stage, dashboard: str, watched: Watched
) -> None:
    watched.expected = ("502", "ERR_")
    stage.post("/topic/create?topic=tailed")
    stage.post("/channel/create?topic=tailed&channel=archive")
    with stage.proxy(dashboard) as proxy:
        visit(page, f"{proxy.url}/live/tailed")
        expect(page.locator("#tail-state")).to_contain_text("nsqd")
        other = page.context.new_page()  # keeps the tail, with its latest messages
        visit(other, f"{dashboard}/live/tailed")
        expect(other.locator("#tail-state")).to_contain_text("nsqd")
        stage.publish("tailed", b"first")
        expect(page.locator("#messages")).to_contain_text("first")
        stage.call(proxy.set, "502")
        expect(page.locator("#tail-state")).to_contain_text("lost")
        stage.call(proxy.set, "")
        expect(page.locator("#tail-state")).to_contain_text("nsqd")
        stage.publish("tailed", b"second")
        expect(page.locator("#messages")).to_contain_text("second")
        expect(page.locator("#messages > li")).to_have_count(2)
        other.close()
        page.goto("about:blank")


def test_all_windows_of_a_browser_share_a_stream(page: Page, stage: Stage, dashboard: str) -> None:
    with stage.proxy(dashboard) as proxy:
        pages = [page, *(page.context.new_page() for _ in range(7))]
        for each in pages:
            each.goto(f"{proxy.url}/topics")
        for each in pages:
            is_live(each)
        until(lambda: proxy.streams == 1, "one stream for all windows")
        for each in pages[:-1]:
            each.close()
        is_live(pages[-1])
        pages[-1].goto("about:blank")
        until(lambda: proxy.streams == 0, "the stream ends with its last window")


@pytest.mark.parametrize("minutes", [10, -10])
def test_charts_are_drawn_by_the_clock_of_the_server(
    page: Page, stage: Stage, dashboard: str, minutes: int
) -> None:
    page.clock.install(time=time.time() + minutes * 60)
    page.goto(dashboard)
    is_live(page)
    chart = page.locator(".chart").first
    expect(chart.locator(".readout")).to_have_text(re.compile(r"\d"))
    chart.locator(".plot").press("End")  # to the latest value
    over, cursor = chart.locator(".u-over").bounding_box(), chart.locator(".u-cursor-x").bounding_box()
    assert over
    assert cursor
    assert 0.9 <= (cursor["x"] - over["x"]) / over["width"] <= 1


def test_charts_come_back_with_their_topic(
    page: Page, stage: Stage, dashboard: str, watched: Watched
) -> None:
    watched.expected = ("404",)
    stage.post("/topic/create?topic=gone")
    visit(page, f"{dashboard}/topics/gone")
    expect(page.locator(".chart .readout").first).to_have_text(re.compile(r"\d"))
    stage.post("/topic/delete?topic=gone")
    expect(page.locator("main")).to_contain_text("This topic is not there")
    stage.post("/topic/create?topic=gone")
    expect(page.locator(".chart canvas")).to_have_count(4)
    expect(page.locator(".chart .readout").first).to_have_text(re.compile(r"\d"))
    page.get_by_role("button", name="6 h").click()
    expect(page.get_by_role("button", name="6 h")).to_have_attribute("aria-pressed", "true")


@pytest.mark.parametrize("answer", ["none", "login"])
def test_a_page_that_cannot_load_its_figures_says_so(
    page: Page, stage: Stage, dashboard: str, watched: Watched, answer: str
) -> None:
    del stage
    watched.expected = ("ERR_", "htmx:")
    page.goto(f"{dashboard}/nodes")
    is_live(page)

    def respond(route: Route) -> None:
        if answer == "login":  # as a proxy answers whose session is over
            route.fulfill(status=200, content_type="text/html", body="<h1>Log in</h1>")

    page.route("**/nodes", respond)
    say_old(page)
    assert page.locator("h1").inner_text() == "Nodes"
    page.unroute("**/nodes")
    heal(page)


def _without(page: Page) -> None:
    page.add_init_script("delete window.SharedWorker")


def _not_loaded(page: Page) -> None:
    page.add_init_script("""
        const Worker = SharedWorker;
        window.SharedWorker = function (url, options) { return new Worker(url + ".none", options); };
    """)


def _dead(page: Page) -> None:
    page.add_init_script("""
        window.SharedWorker = class { port = {postMessage() {}}; addEventListener() {} };
    """)


@pytest.mark.parametrize("lack", [_without, _not_loaded, _dead])
def test_a_window_without_a_shared_stream_has_its_own(
    page: Page, stage: Stage, dashboard: str, watched: Watched, lack: Callable[[Page], None]
) -> None:
    watched.expected = ("404",)
    lack(page)
    with stage.proxy(dashboard) as proxy:
        page.goto(proxy.url)
        until(lambda: proxy.streams == 1, "the stream is open")
        heal(page)
        stage.call(proxy.set, "502")
        watched.expected += ("502", "ERR_")
        say_old(page)
        stage.call(proxy.set, "")
        heal(page)
        page.goto("about:blank")
