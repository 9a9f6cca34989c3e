"""Pages are found, searched and read, by mouse and keyboard, by everybody."""

from __future__ import annotations

import re
import socket
from collections.abc import Generator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, FloatRect, Locator, Page, ViewportSize, expect

from .axe import severe_findings
from .conftest import Watched
from .stage import Stage, until, visit

PAGES = [
    *["", "topics", "topics/read", "topics/read/archive", "nodes", "nodes/NODE", "lookup", "counter"],
    *["live/read", "letters/read.dead?channel=retry"],
]


@pytest.fixture(scope="module", autouse=True)
def topics(stage: Stage, dashboard: str) -> None:
    for at in (0, 1):
        for channel in ("archive", "billing"):
            stage.post("/topic/create?topic=read", at=at)
            stage.post(f"/channel/create?topic=read&channel={channel}", at=at)
    stage.post("/topic/create?topic=read.dead")
    stage.post("/channel/create?topic=read.dead&channel=retry")
    stage.publish("read", *[b'{"n": %d}' % number for number in range(20)])


def address(stage: Stage, dashboard: str, path: str) -> str:
    return f"{dashboard}/{path.replace('NODE', stage.nsqds[0].http_address)}"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_each_page_is_accessible_and_fits(
    browser: Browser, stage: Stage, dashboard: str, scheme: str, width: int, shots: Path | None
) -> None:
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})  # type: ignore[arg-type]
    page = context.new_page()
    watched = Watched()
    watched.watch(page)
    for path in PAGES:
        visit(page, address(stage, dashboard, path))
        expect(page.locator("h1")).to_be_visible()
        assert severe_findings(page) == {}, path
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
        if shots:
            name = re.sub(r"[^a-z.]+", "-", path.replace("NODE", "node")) or "overview"
            page.screenshot(path=shots / f"{name}-{width}-{scheme}.png")
    context.close()
    assert watched.unexpected == []


PHONE: ViewportSize = {"width": 390, "height": 844}


@pytest.fixture
def consumer(stage: Stage) -> Generator[None]:
    """A consumer of ``read/billing`` on the first nsqd that takes messages and never answers."""
    host, _, port = stage.nsqds[0].tcp_address.rpartition(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(b"  V2SUB read billing\nRDY 3\n")
        until(lambda: stage.channel("read", "billing")["client_count"], "the consumer")
        yield


def box_of(found: Locator) -> FloatRect:
    """Where an element is; a poll can replace it while it is measured, which makes it None for a moment."""
    return until(found.bounding_box, f"{found} is shown")


def is_seen(page: Page, found: Locator) -> bool:
    """Whether an element is on the first screen, without any scrolling."""
    box, size = box_of(found), page.viewport_size
    assert size
    return box["x"] + box["width"] <= size["width"] and box["y"] + box["height"] <= size["height"]


def test_why_a_channel_does_not_move_is_on_the_first_screen_of_a_phone(
    page: Page, stage: Stage, dashboard: str, consumer: None
) -> None:
    stage.publish("read", b"1", b"2", at=1)  # where no consumer is connected
    page.set_viewport_size(PHONE)
    visit(page, f"{dashboard}/topics/read/billing")
    problems = page.locator(".problems")
    expect(problems).to_contain_text(f"No consumer is connected to {stage.nsqds[1].http_address}")
    assert is_seen(page, problems)
    table = page.locator("section", has=page.locator("#clients-title")).locator("table")
    for number, column in enumerate(("Consumer", "RDY", "In flight", "Finished"), 1):
        expect(table.locator(f"thead th:nth-child({number})")).to_contain_text(column)
        assert is_seen(page, table.locator(f"tbody tr:first-child > :nth-child({number})")), column
    expect(table.locator("tbody tr > :nth-child(2)")).to_have_text("3")


ESSENTIAL = {
    "": ["Channel", "Depth", "Egress/s", "Consumers"],
    "topics": ["Topic", "Depth", "Ingress/s", "Egress/s"],
    "topics/read": ["Channel", "Depth", "Egress/s", "In flight", "Consumers"],
    "topics/read/archive": ["nsqd", "Depth", "In flight", "Consumers"],
    "nodes": ["nsqd", "Depth", "In flight", "Consumers"],
    "nodes/NODE": ["Topic and channels", "Depth", "In flight", "Consumers"],
    "lookup": ["nsqlookupd", "State"],
}


def test_the_columns_that_matter_are_seen_on_a_phone(page: Page, stage: Stage, dashboard: str) -> None:
    page.set_viewport_size(PHONE)
    for path, columns in ESSENTIAL.items():
        visit(page, address(stage, dashboard, path))
        for column in columns:
            box = box_of(page.locator("thead th", has_text=re.compile(rf"^\s*{column}")).first)
            assert box["x"] + box["width"] <= PHONE["width"], (path, column)


def test_pages_are_reached_by_keys(page: Page, dashboard: str) -> None:
    page.goto(dashboard)
    for key, path in (("t", "topics"), ("n", "nodes"), ("l", "lookup"), ("c", "counter"), ("o", "")):
        page.keyboard.press("g")
        page.keyboard.press(key)
        page.wait_for_url(f"{dashboard}/{path}")
    page.keyboard.press("?")
    expect(page.locator("#shortcuts")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#shortcuts")).to_be_hidden()


def test_topics_are_searched_while_one_types(page: Page, dashboard: str) -> None:
    page.goto(f"{dashboard}/topics")
    expect(page.get_by_role("link", name="read", exact=True)).to_be_visible()
    page.keyboard.press("/")
    page.keyboard.type("DEAD")
    expect(page.get_by_role("link", name="read", exact=True)).to_be_hidden()
    expect(page.get_by_role("link", name="read.dead", exact=True)).to_be_visible()
    page.keyboard.type("x")
    expect(page.get_by_role("link", name="read.dead", exact=True)).to_be_hidden()


def test_a_choice_of_colours_is_kept(page: Page, dashboard: str) -> None:
    page.goto(dashboard)
    seen: set[str] = set()
    for _ in range(3):
        seen.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
        page.locator("#theme").click()
    assert len(seen) == 2
    page.locator("#theme").click()
    chosen = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == chosen


def test_new_figures_arrive_and_leave_what_is_typed(page: Page, stage: Stage, dashboard: str) -> None:
    page.goto(f"{dashboard}/topics?q=read")
    field = page.locator("input[type=search]").first
    field.focus()
    row = page.locator("tr", has=page.get_by_role("link", name="read", exact=True))
    before = row.inner_text()
    stage.publish("read", *[b"more"] * 1000)
    until(lambda: row.inner_text() != before, "the row shows new figures")
    assert field.input_value() == "read"
    assert page.evaluate("document.activeElement.type") == "search"


def test_pages_are_read_without_scripts(browser: Browser, stage: Stage, dashboard: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    for path in PAGES[:-2]:
        visit(page, address(stage, dashboard, path))
        assert page.locator("h1").inner_text()
    page.goto(f"{dashboard}/topics")
    page.locator("input[type=search]").first.fill("dead")
    page.locator("input[type=search]").first.press("Enter")
    assert page.get_by_role("link", name="read", exact=True).count() == 0
    context.close()


def test_an_unknown_page_says_so(page: Page, dashboard: str, watched: Watched) -> None:
    watched.expected = ("404",)
    page.goto(f"{dashboard}/topics/nothing")
    expect(page.locator("main")).to_contain_text("nothing")


def test_servers_that_leave_are_named(page: Page, stage: Stage, dashboard: str) -> None:
    page.goto(dashboard)
    stage.call(stage.nsqds[1].stop)
    expect(page.locator("main")).to_contain_text(stage.nsqds[1].http_address)
    page.goto(f"{dashboard}/nodes")
    row = page.locator("tr", has_text=stage.nsqds[1].http_address)
    expect(row).to_contain_text("down")
    stage.nsqds[1] = stage.start_nsqd(succeeding=stage.nsqds[1])
    expect(row).not_to_contain_text("down")

    stage.call(stage.nsqlookupd.stop)
    page.goto(f"{dashboard}/lookup")
    expect(page.locator("main")).to_contain_text("no answer")
    stage.nsqlookupd = stage.start_nsqlookupd(succeeding=stage.nsqlookupd)
    expect(page.locator("main")).not_to_contain_text("no answer")
