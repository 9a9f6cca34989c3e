"""Every action is done by its buttons, against real nsqds."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, Route, expect

import nsq_anyio as nsq

from .axe import severe_findings
from .conftest import Watched
from .stage import Stage, until, visit


def make(stage: Stage, topic: str, *channels: str) -> None:
    """Create a topic with its channels on both nsqds."""
    for at in (0, 1):
        stage.post(f"/topic/create?topic={topic}", at=at)
        for channel in channels:
            stage.post(f"/channel/create?topic={topic}&channel={channel}", at=at)


def press(page: Page, name: str) -> None:
    page.locator("main").get_by_role("button", name=name).click()


def confirm(page: Page, name: str, typed: str = "") -> None:
    """Confirm in the dialog, and wait until it shows what came of it."""
    dialog = page.locator("#dialog")
    if typed:
        dialog.locator("input[name=typed]").fill(typed)
    dialog.get_by_role("button", name=name).click()
    expect(dialog.get_by_role("button", name="Close")).to_be_visible()


def close(page: Page) -> None:
    page.locator("#dialog").get_by_role("button", name="Close").click()
    expect(page.locator("#dialog")).to_be_hidden()


def test_a_topic_is_created_and_deleted(page: Page, stage: Stage, dashboard: str, watched: Watched) -> None:
    watched.expected = ("404",)  # of the page whose topic is gone
    visit(page, f"{dashboard}/lookup")
    press(page, "Create topic or channel")
    page.get_by_label("Topic", exact=True).fill("made")
    page.locator("#new-channel").fill("first")
    confirm(page, "Create")
    close(page)
    # As nsqadmin does: nsqlookupd knows it, and an nsqd gets it when somebody publishes.
    expect(page.locator("main")).to_contain_text("made")

    make(stage, "made", "first")
    visit(page, f"{dashboard}/topics/made")
    press(page, "Delete")
    confirm(page, "Delete")
    assert stage.topic("made") == {}
    assert stage.topic("made", at=1) == {}


def test_messages_are_published_and_seen_live(page: Page, stage: Stage, dashboard: str) -> None:
    make(stage, "seen", "archive")
    visit(page, f"{dashboard}/live/seen")
    until(
        lambda: any(each["channel_name"] != "archive" for each in stage.topic("seen")["channels"]), "the tail"
    )
    expect(page.locator("#tail-state")).to_contain_text("2 nsqds")

    other = page.context.new_page()
    visit(other, f"{dashboard}/topics/seen")
    press(other, "Publish a message")
    expect(other.locator("textarea[name=body]")).to_be_visible()
    assert severe_findings(other) == {}
    other.locator("textarea[name=body]").fill('{"user": 17, "text": "<img src=x onerror=alert(1)>"}')
    other.locator("textarea[name=headers]").fill("trace: 1234")
    confirm(other, "Publish")
    expect(other.locator("#dialog")).to_contain_text("stored")

    messages = page.locator("#messages")
    expect(messages).to_contain_text('"user"')
    expect(messages).to_contain_text("onerror")
    assert messages.locator("img").count() == 0
    assert stage.channel("seen", "archive")["depth"] + stage.channel("seen", "archive", at=1)["depth"] == 1
    page.close()
    until(lambda: len(stage.topic("seen")["channels"]) == 1, "the tail's channel is gone")


@pytest.mark.parametrize("button", ["Publish a message", "Pause"])
def test_a_button_works_while_a_poll_is_under_way(
    page: Page, stage: Stage, dashboard: str, button: str
) -> None:
    make(stage, "busy", "archive")
    visit(page, f"{dashboard}/topics/busy")
    unanswered: list[Route] = []

    def hold(route: Route) -> None:  # Playwright takes no method that is built in
        unanswered.append(route)

    page.route("**/topics/busy", hold)
    while not unanswered:  # the next poll
        page.wait_for_timeout(20)
    press(page, button)
    expect(page.locator("#dialog h2")).to_be_visible()


def test_a_topic_without_channels_is_not_drained_unasked(page: Page, stage: Stage, dashboard: str) -> None:
    make(stage, "lonely")
    stage.publish("lonely", b"waits")
    visit(page, f"{dashboard}/live/lonely")
    expect(page.locator("#tail-state")).to_contain_text("no channel that lasts")
    assert stage.topic("lonely")["channels"] == []


def test_a_channel_is_paused_emptied_and_deleted(
    page: Page, stage: Stage, dashboard: str, watched: Watched
) -> None:
    watched.expected = ("404",)  # of the page whose channel is gone
    make(stage, "acted", "archive")
    stage.publish("acted", *[b"waits"] * 5)
    visit(page, f"{dashboard}/topics/acted/archive")

    press(page, "Pause")
    confirm(page, "Pause")
    close(page)
    assert stage.channel("acted", "archive")["paused"]
    assert stage.channel("acted", "archive", at=1)["paused"]

    press(page, "Unpause")
    confirm(page, "Unpause")
    close(page)
    assert not stage.channel("acted", "archive")["paused"]

    press(page, "Empty")
    expect(page.locator("#dialog")).to_contain_text("5 messages will be lost")
    assert severe_findings(page) == {}
    confirm(page, "Empty", typed="archive")
    close(page)
    assert stage.channel("acted", "archive")["depth"] == 0

    press(page, "Delete")
    confirm(page, "Delete")
    assert stage.channel("acted", "archive") == {}


def test_a_topic_is_paused_and_emptied(page: Page, stage: Stage, dashboard: str) -> None:
    make(stage, "held")
    visit(page, f"{dashboard}/topics/held")
    press(page, "Pause")
    confirm(page, "Pause")
    close(page)
    assert stage.topic("held")["paused"]
    stage.publish("held", b"waits")
    press(page, "Empty")
    confirm(page, "Empty", typed="held")
    close(page)
    assert stage.topic("held")["depth"] == 0
    press(page, "Unpause")
    confirm(page, "Unpause")
    assert not stage.topic("held")["paused"]


def test_a_topic_is_tombstoned_on_a_node(page: Page, stage: Stage, dashboard: str) -> None:
    make(stage, "moved", "archive")
    visit(page, f"{dashboard}/nodes/{stage.nsqds[0].http_address}")
    press(page, "Tombstone topic moved")
    confirm(page, "Tombstone")
    assert stage.topic("moved") == {}
    assert stage.topic("moved", at=1) != {}


def test_what_fails_on_one_node_is_told(page: Page, stage: Stage, dashboard: str) -> None:
    make(stage, "half", "archive")
    visit(page, f"{dashboard}/topics/half/archive")
    press(page, "Pause")
    expect(page.locator("#dialog tbody tr")).to_have_count(2)
    with stage.suspended(1):
        confirm(page, "Pause")
        expect(page.locator("#dialog tr", has_text=stage.nsqds[1].http_address)).to_contain_text("failed")
        expect(page.locator("#dialog tr", has_text=stage.nsqds[0].http_address)).to_contain_text("done")
        assert stage.channel("half", "archive")["paused"]


def test_what_comes_while_the_dialog_is_open_is_asked_about(
    page: Page, stage: Stage, dashboard: str, watched: Watched
) -> None:
    watched.expected = ("409",)
    make(stage, "filling", "archive")
    stage.publish("filling", *[b"waits"] * 5)
    visit(page, f"{dashboard}/topics/filling/archive")
    press(page, "Empty")
    dialog = page.locator("#dialog")
    expect(dialog).to_contain_text("5 messages will be lost")
    stage.publish("filling", *[b"more"] * 500)
    dialog.locator("input[name=typed]").fill("archive")
    dialog.get_by_role("button", name="Empty").click()
    expect(dialog).to_contain_text("505 messages would be lost now, and 5 when you were asked")
    assert stage.channel("filling", "archive")["depth"] == 505
    confirm(page, "Empty", typed="archive")
    assert stage.channel("filling", "archive")["depth"] == 0


def test_an_nsqd_that_is_down_is_named_before_and_after(page: Page, stage: Stage, dashboard: str) -> None:
    make(stage, "halved", "archive")
    visit(page, f"{dashboard}/topics/halved/archive")
    name = stage.nsqds[1].http_address
    expect(page.locator("main")).to_contain_text(name)
    stage.call(stage.nsqds[1].stop)
    try:
        expect(page.locator("main .note")).to_contain_text(f"{name} does not answer")
        press(page, "Pause")
        dialog = page.locator("#dialog")
        expect(dialog).to_contain_text(f"{name} does not answer now, and had the channel before.")
        confirm(page, "Pause")
        expect(dialog).to_contain_text("in part only")
        expect(dialog.locator("tr", has_text=name)).to_contain_text("It was not reached: connection refused")
        expect(dialog).to_contain_text("Repeat this once the cause is gone.")
    finally:
        stage.nsqds[1] = stage.start_nsqd(succeeding=stage.nsqds[1])


def test_a_dead_letter_is_retried(page: Page, stage: Stage, dashboard: str) -> None:
    make(stage, "worked", "jobs")
    make(stage, "worked.dead", "retry")
    stage.publish("worked", b"bad")

    def refuse(_message: nsq.Message) -> None:
        raise nsq.Discard("no such user")

    async def die() -> None:
        async with (
            nsq.produce(stage.nsqds[0].tcp_address) as producer,
            nsq.consume(
                *("worked", "jobs"),
                nsqd=stage.nsqds[0].tcp_address,
                dead_letter=nsq.DeadLetter("{topic}.dead", producer=producer),
            ) as consumer,
        ):
            async for message in consumer:
                async with message:
                    refuse(message)
                return

    stage.call(die)
    visit(page, f"{dashboard}/letters/worked.dead?channel=retry")
    press(page, "List")
    expect(page.locator("#letters")).to_contain_text("no such user")
    page.locator("#letters input[type=checkbox]").check()
    press(page, "Retry selected")
    expect(page.locator("#dialog")).to_be_visible()
    assert severe_findings(page) == {}
    page.locator("#dialog").get_by_role("button", name="Retry 1 letter").click()
    expect(page.locator("#job")).to_contain_text("1 letter retried")
    # To whichever nsqd had its turn.
    until(lambda: sum(stage.channel("worked", "jobs", at=at)["depth"] for at in (0, 1)) == 1, "it is back")
    until(lambda: stage.channel("worked.dead", "retry")["depth"] == 0, "the letter is gone")


def test_only_administrators_act(
    page: Page, stage: Stage, tmp_path_factory: pytest.TempPathFactory, watched: Watched
) -> None:
    make(stage, "guarded", "archive")
    with stage.dashboard(tmp_path_factory.mktemp("guarded"), "--admin-user=ann") as url:
        visit(page, f"{url}/topics/guarded/archive")
        expect(page.locator("main")).to_contain_text("archive")
        assert page.get_by_role("button", name="Delete").count() == 0
        watched.expected = ("403",)
        script = """async (path) => (await fetch(path, {method: "POST", headers: {
            "X-Requested-With": "htmx", "Content-Type": "application/x-www-form-urlencoded"},
            body: "action=delete&topic=guarded&channel=archive&number=1&typed=archive"})).status"""
        assert page.evaluate(script, f"{url}/actions") == 403
        assert stage.channel("guarded", "archive") != {}

        page.context.set_extra_http_headers({"X-Forwarded-User": "ann"})
        page.reload()
        expect(page.get_by_role("button", name="Delete")).to_be_visible()
        page.goto("about:blank")


def test_nobody_acts_in_read_only_mode(
    page: Page, stage: Stage, tmp_path_factory: pytest.TempPathFactory
) -> None:
    make(stage, "frozen", "archive")
    with stage.dashboard(tmp_path_factory.mktemp("frozen"), "--read-only") as url:
        visit(page, f"{url}/topics/frozen/archive")
        expect(page.locator("main")).to_contain_text("archive")
        assert page.get_by_role("button", name="Pause").count() == 0
        page.goto("about:blank")


def test_it_works_below_a_path(page: Page, stage: Stage, tmp_path_factory: pytest.TempPathFactory) -> None:
    make(stage, "nested", "archive")
    with stage.dashboard(tmp_path_factory.mktemp("nested"), "--base-path=/nsq") as url:
        visit(page, f"{url}/nsq/topics/nested/archive")
        press(page, "Pause")
        confirm(page, "Pause")
        assert stage.channel("nested", "archive")["paused"]
        page.goto("about:blank")
