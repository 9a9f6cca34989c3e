"""The pages of messages over HTTP: who may see what, and that no content breaks a page."""

import json
import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import httpx
import pytest

import nsq_anyio as nsq
from nsq_anyio import envelope
from nsq_anyio.admin import AdminOptions, app
from nsq_anyio.serving.asgi_server import serve_asgi
from nsq_anyio.serving.listener import local_port, open_listener
from nsq_anyio.tasks import background_tasks

pytestmark = pytest.mark.anyio

OWN = {"X-Requested-With": "htmx", "Sec-Fetch-Site": "same-origin"}
EVIL = "<script>alert(1)</script><img src=x onerror=alert(1)>'\"&"


@dataclass
class Dashboard:
    """A dashboard of one nsqd, which has a topic ``t`` with a channel ``c``."""

    client: httpx.AsyncClient
    http: nsq.http.Nsqd
    nsqd: nsq.embedded.EmbeddedNsqd

    async def page(self, path: str, status: int = 200, **headers: str) -> str:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        reply = await self.client.get(path, headers=given)
        assert reply.status_code == status, reply.text
        return reply.text

    async def form(
        self, path: str, status: int = 200, headers: Mapping[str, str] = OWN, **fields: object
    ) -> str:
        reply = await self.client.post(path, data=fields, headers=headers)
        assert reply.status_code == status, reply.text
        assert reply.headers["content-security-policy"].startswith("default-src 'none'")
        return reply.text

    async def events(self, path: str, wanted: Callable[[str], bool]) -> str:
        """What a stream of events sends, up to the event that is wanted."""
        port = self.client.base_url.port
        assert port is not None
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n".encode())
            sent = b""
            while not wanted(sent.decode("utf-8", "ignore")):
                sent += await stream.receive()
        head, _, events = sent.decode("utf-8", "ignore").partition("\r\n\r\n")
        assert "text/event-stream" in head
        return events


def a_message(events: str) -> bool:
    return "event: messages" in events and events.endswith("\n\n")


def contains(text: str) -> Callable[[str], bool]:
    return lambda events: text in events


@asynccontextmanager
async def dashboard(**options: object) -> AsyncGenerator[Dashboard]:
    given = AdminOptions(**{"poll_interval": 0.05, **options})  # type: ignore[arg-type]
    async with (
        nsq.embedded.nsqd() as nsqd,
        nsq.http.Nsqd(nsqd.http_url) as http,
    ):
        await http.create_topic("t")
        await http.create_channel("t", "c")
        async with (
            app(nsqd=nsqd.http_url, options=given) as application,
            await open_listener("127.0.0.1", 0) as listener,
            background_tasks() as tasks,
            httpx.AsyncClient(base_url=f"http://127.0.0.1:{local_port(listener)}", timeout=20) as client,
        ):
            tasks.start_soon(lambda: serve_asgi(listener, application, max_body_size=4 * 1024 * 1024))
            with anyio.fail_after(60):
                yield Dashboard(client, http, nsqd)


def is_harmless(html: str) -> bool:
    """Whether nothing of `EVIL` became a tag or ended an attribute."""
    return "<script>alert" not in html and "<img" not in re.sub(r'<img src="[^"]*icon.svg"[^>]*>', "", html)


@pytest.mark.parametrize(
    "body",
    [
        EVIL.encode(),
        json.dumps({EVIL: EVIL, "list": [EVIL, {EVIL: None}]}).encode(),
        envelope.encode(EVIL.encode(), {"h": EVIL}),
        b"\xff" + EVIL.encode(),
        envelope.MAGIC + b"\x01\x00\x03\x01<\x00",
        "\u2028\u202e</li></ol>\r\n\r\nevent: over\r\n".encode(),
    ],
)
async def test_no_body_breaks_the_live_page(body: bytes) -> None:
    async with dashboard() as on:

        async def publish() -> None:
            while True:
                await on.http.publish("t", body)
                await anyio.sleep(0.2)

        html = ""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(publish)
            html = await on.events("/live/t/messages", a_message)
            tasks.cancel_scope.cancel()
        assert is_harmless(html)
        assert html.count('<li class="message" ') == html.count("</details></li>") > 0
        assert "\nevent: over" not in html
        assert "\u202e" not in html


async def test_no_letter_breaks_the_page() -> None:
    async with dashboard() as on:
        await on.http.create_topic("t.dead")
        await on.http.create_channel("t.dead", "dead-letter")
        await on.http.publish("t", EVIL.encode())
        async with nsq.produce(on.nsqd.tcp_address) as producer:
            letters = nsq.DeadLetter("{topic}.dead", producer=producer)
            async with nsq.consume("t", "c", nsqd=on.nsqd.tcp_address, dead_letter=letters) as consumer:
                async with await anext(consumer):
                    raise nsq.Discard(EVIL)
        while "t.dead" not in await on.page("/topics"):
            pass
        await on.form("/letters/t.dead", kind="list", channel="dead-letter")
        while "Retry selected" not in (page := await on.page("/letters/t.dead")):
            pass
        assert "&lt;script&gt;alert(1)" in page
        assert is_harmless(page)
        (id,) = re.findall(r'name="id" value="([^"]+/[0-9a-f]+)"', page)
        html = await on.page(f"/letters/t.dead/letter?channel=dead-letter&id={id}")
        assert html.count("&lt;script&gt;alert(1)") >= 3
        assert is_harmless(html)
        for query in (f"kind=drop&id={id}&id=%3Cscript%3Ealert(1)", "all=retry&error=%3Cscript%3Ealert(1)"):
            html = await on.page(f"/letters/t.dead/confirm?channel=dead-letter&{query}")
            assert is_harmless(html)
        await on.form("/letters/t.dead", kind="retry", channel="dead-letter", id=[id])
        while "1 letter retried" not in await on.page("/letters/t.dead"):
            pass


async def test_dropping_all_needs_the_name() -> None:
    async with dashboard() as on:
        text = await on.form("/letters/t", 409, kind="drop", channel="c")
        assert "Type the name of the topic, t" in text
        await on.form("/letters/t", kind="drop", channel="c", name="t")
        assert "A job is running" in await on.form("/letters/t", 409, kind="list", channel="c")


async def test_publish_by_the_form() -> None:
    async with dashboard() as on:
        while "Publish a message" not in await on.page("/topics/t"):
            pass
        form = await on.page("/publish/t")
        (number,) = re.findall(r'name="number" value="([^"]+)"', form)
        html = await on.form("/publish/t", 400, body="{", format="json", number=number)
        assert "The body is not JSON" in html
        (number,) = re.findall(r'name="number" value="([^"]+)"', html)
        for _ in range(2):  # a second click publishes nothing more
            html = await on.form("/publish/t", body='{"a": 1}', format="json", number=number)
            assert "has stored the message of 8 bytes" in html
        stats = await on.http.stats(topic="t", include_mem=False)
        assert stats.topics[0].message_count == 1
        assert "gone, or does not answer" in await on.form("/publish/t", 400, body="x", node="evil:1")
        assert is_harmless(await on.form("/publish/t", 400, body="x", node=EVIL, format=EVIL))
        await on.form("/publish/none", 404, body="x")
        assert [each.topic_name for each in (await on.http.stats()).topics] == ["t"]


POSTS = ("/live/t", "/letters/t", "/letters/t/stop", "/publish/t")


async def test_no_page_of_another_site_acts_or_reads() -> None:
    async with dashboard() as on:
        await on.page("/live/t")
        for headers in (
            {},
            {"Sec-Fetch-Site": "same-origin"},
            {"X-Requested-With": "htmx", "Sec-Fetch-Site": "cross-site"},
            {"X-Requested-With": "htmx", "Origin": "http://evil.example"},
        ):
            for path in POSTS:
                await on.form(path, 403, headers, kind="list", channel="c", body="x")
        reply = await on.client.get("/live/t/messages", headers={"Sec-Fetch-Site": "cross-site"})
        assert reply.status_code == 403
        stats = await on.http.stats(topic="t", include_mem=False)
        assert [each.channel_name for each in stats.topics[0].channels] == ["c"]
        assert stats.topics[0].message_count == 0


async def test_only_administrators_see_messages() -> None:
    async with dashboard(admin_users=["ann"], acl_http_header="X-User") as on:
        reads = ("/live/t", "/live/t/messages", "/letters/t", "/letters/t/letter?channel=c&id=1")
        for path in (*reads, "/letters/t/confirm?all=drop&channel=c", "/publish/t"):
            await on.page(path, 403, X_User="bob")
        for path in POSTS:
            await on.form(path, 403, {**OWN, "X-User": "bob"}, kind="list", channel="c", body="x")
        page = await on.page("/topics/t", X_User="bob")
        assert "Watch live" not in page
        page = await on.page("/topics/t", X_User="ann")
        assert "Watch live" in page
        await on.page("/live/t", X_User="ann")


async def test_messages_can_be_switched_off() -> None:
    async with dashboard(messages=False) as on:
        for path in ("/live/t", "/live/t/messages", "/letters/t", "/letters/t/letter?channel=c&id=1"):
            assert "--no-messages" in await on.page(path, 404)
        page = await on.page("/topics/t")
        assert "Watch live" not in page
        assert "Publish a message" in page


async def test_read_only_shows_copies_and_nothing_else() -> None:
    async with dashboard(read_only=True) as on:
        for path in POSTS:
            assert "read-only" in await on.form(path, 403, kind="list", channel="c", body="x")
        page = await on.page("/letters/t")
        assert "Drop all" not in page
        page = await on.page("/topics/t")
        assert "Watch live" in page
        assert "Publish a message" not in page
        await on.events("/live/t/messages", contains(">live<"))


async def test_a_topic_without_channels_is_drained_only_on_request() -> None:
    async with dashboard() as on:
        await on.http.create_topic("lonely")
        await on.http.publish("lonely", b"first")
        while "lonely" not in await on.page("/topics"):
            pass
        for query in ("", "?permit=guessed"):
            events = await on.events(f"/live/lonely/messages{query}", contains("event: over"))
            assert "Take the 1 message that waits, and watch" in events
        start = await on.form("/live/lonely")
        (token,) = re.findall(r'data-permit="([^"]+)"', start)
        events = await on.events(f"/live/t/messages?permit={token}", contains(">live<"))
        assert "is taken from the topic" not in events  # the token is for another topic
        events = await on.events(f"/live/lonely/messages?permit={token}", a_message)
        assert "first" in events


async def test_names_that_are_not_valid_are_refused() -> None:
    async with dashboard() as on:
        for path in ("/live/%3Cscript%3E", "/letters/a%20b", "/publish/a%0a", "/letters/t?channel=%3Cb%3E"):
            page = await on.page(path, 404)
            assert "<script>" not in page
            assert "<b>" not in page
