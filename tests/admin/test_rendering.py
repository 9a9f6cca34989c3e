"""Templates escape what they are given, and pages are rendered once."""

import anyio
import anyio.lowlevel
import jinja2
import pytest

from nsq_anyio.admin.pages.rendering import Assets, Renderer, segment
from nsq_anyio.admin.pages.request import PageError
from nsq_anyio.serving.single_flight import SingleFlight

HOSTILE = "<script>alert(1)</script>\"'&\ud800\x00"


def test_templates_escape_what_they_are_given() -> None:
    renderer = Renderer(Assets())
    error = PageError(404, HOSTILE, HOSTILE)
    shared = {"root": "", "layout": "base.html", "section": "", "interval": 5.0, "may_act": False}
    shared |= {"error": error, "snapshot": None, "has_delays": False}
    page = renderer.render("error.html", shared).decode()
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&#34;&#39;&amp;?" in page


def test_a_missing_value_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError):
        Renderer(Assets()).render("error.html", {})


def test_a_name_is_one_segment_of_a_path() -> None:
    assert segment("a/b?c#d%\ud800") == "a%2Fb%3Fc%23d%25%3F"


def test_an_unknown_file_is_an_error() -> None:
    with pytest.raises(KeyError):
        Assets().path("none.js")


@pytest.mark.anyio
async def test_a_page_is_rendered_once_for_all_who_ask() -> None:
    rendered = SingleFlight[bytes](len, 1000)
    calls = 0

    async def render() -> bytes:
        nonlocal calls
        calls += 1
        await anyio.lowlevel.checkpoint()
        return b"page"

    async def ask() -> None:
        assert await rendered.get(1, "/", render) == b"page"

    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(ask)
    assert calls == 1
    await rendered.get(2, "/", render)
    await rendered.get(1, "/", render)  # an old view is rendered, and not kept
    await rendered.get(1, "/", render)
    await rendered.get(2, "/", render)
    assert calls == 4


@pytest.mark.anyio
async def test_who_waits_renders_when_the_first_one_is_cancelled_or_fails() -> None:
    rendered = SingleFlight[bytes](len, 1000)
    began = anyio.Event()

    async def hang() -> bytes:
        began.set()
        await anyio.sleep_forever()
        return b""

    async def fail() -> bytes:
        raise ZeroDivisionError

    async def render() -> bytes:
        return b"page"

    async with anyio.create_task_group() as second:
        async with anyio.create_task_group() as first:
            first.start_soon(rendered.get, 1, "/", hang)
            await began.wait()
            second.start_soon(rendered.get, 1, "/", render)
            await anyio.wait_all_tasks_blocked()
            first.cancel_scope.cancel()
    with pytest.raises(ZeroDivisionError):
        await rendered.get(1, "/other", fail)
    with anyio.fail_after(5):
        assert await rendered.get(1, "/", hang) == b"page"
    assert await rendered.get(1, "/other", render) == b"page"


@pytest.mark.anyio
async def test_what_is_kept_is_bounded() -> None:
    rendered = SingleFlight[bytes](len, 25)
    calls: list[str] = []

    async def ask(path: str, size: int = 10) -> None:
        async def render() -> bytes:
            calls.append(path)
            return b"x" * size

        assert len(await rendered.get(1, path, render)) == size

    for path in ("a", "b", "a", "c", "a", "b"):
        await ask(path)
    assert calls == ["a", "b", "c", "b"]
    for _ in range(2):
        await ask("huge", 26)
    assert calls[4:] == ["huge", "huge"]
