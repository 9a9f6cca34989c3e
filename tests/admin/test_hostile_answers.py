"""Servers that answer what would do harm: pages show it as text, and stay up."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import anyio.abc
import httpx
import pytest

from nsq_anyio.admin import AdminOptions, app
from nsq_anyio.serving.http_messages import Response

from ..http.support import read_head, tcp_server
from .hostile import EVIL, LARGE, Harm, as_nsqd, as_nsqlookupd, endless, fake, hostile_cluster
from .test_actions import talking, text, title

pytestmark = pytest.mark.anyio

LIMIT = 30.0
PATHS = (
    "/",
    "/topics",
    "/topics?q=%22%3E%3Cscript%3E&sort=%22&filter=%3Cb%3E&page=%3Ci%3E",
    "/topics/clicks",
    "/topics/clicks/archive",
    "/topics/%22%3E%3Cscript%3E",
    "/topics/clicks/%22%3E%3Cscript%3E",
    "/nodes",
    "/nodes/%22%3E%3Cscript%3E",
    "/lookup",
    "/counter",
)


@asynccontextmanager
async def pages(*urls: str, **options: object) -> AsyncGenerator[httpx.AsyncClient]:
    given = AdminOptions(**{"poll_interval": 0.2, "timeout": 2.0, **options})  # type: ignore[arg-type]
    async with app(urls, options=given) as application, talking(application) as client:
        del client.headers["HX-Request"]
        yield client


async def read(client: httpx.AsyncClient, *more: str) -> dict[str, str]:
    """Read each kind of page, check that it has no harm in it, and return them by their paths."""
    found: dict[str, str] = {}
    for path in (*PATHS, *more):
        reply = await client.get(path)
        assert reply.status_code in (200, 404), (path, reply.text)
        assert Harm(reply.text).found == [], path
        found[path] = reply.text
    return found


async def crawl(client: httpx.AsyncClient, at: str) -> int:
    """Follow the links of a page, each path once; return how many there were."""
    links = {link.partition("?")[0].partition("#")[0] for link in Harm((await client.get(at)).text).links}
    links = {link for link in links if link and not link.startswith(("/static/", "/api/"))}
    await read(client, *links - set(PATHS))
    return len(links)


async def test_names_and_texts_of_servers_are_text_on_every_page() -> None:
    async with hostile_cluster() as (lookupd, _), pages(lookupd.url) as client:
        found = await read(client)
        escaped = "&lt;script&gt;alert(1)&lt;/script&gt;"
        for path in ("/topics", "/topics/clicks", "/topics/clicks/archive", "/nodes", "/lookup"):
            assert escaped in found[path], path
        for path in ("/topics", "/topics/clicks", "/nodes"):
            assert await crawl(client, path) > 5


async def test_no_page_or_log_line_holds_a_long_text(caplog: pytest.LogCaptureFixture) -> None:
    async with hostile_cluster("x" * 300_000) as (lookupd, nsqd), pages(lookupd.url) as client:
        assert "/topics/clicks" in (await client.get("/topics")).text
        for path in (*PATHS, f"/nodes/{nsqd.name}", "/metrics", "/api/nodes", "/api/topics/clicks"):
            reply = await client.get(path)
            assert len(reply.content) < 100_000, path
        client.headers["HX-Request"] = "true"
        for action in ("delete", "empty"):
            form = {"action": action, "topic": "clicks"}
            assert len((await client.get("/confirm", params=form)).content) < 100_000
            assert len((await client.post("/actions", data={**form, "typed": "clicks"})).content) < 100_000
    assert all(len(record.getMessage()) < 5_000 for record in caplog.records)


async def test_very_many_unusable_nsqds_are_logged_on_a_short_line(caplog: pytest.LogCaptureFixture) -> None:
    async with fake() as lookupd, fake() as nsqd:
        producers = [{"broadcast_address": f"not an address {number}"} for number in range(5000)]
        nsqd.answers = as_nsqd()
        known = {"broadcast_address": "127.0.0.1", "http_port": nsqd.port}
        lookupd.answers["/lookup"] = json.dumps({"channels": [], "producers": [known, *producers]}).encode()
        async with pages(lookupd.url) as client:
            reply = await client.get("/api/topics/clicks")
            assert reply.json()["message"].endswith("and 4900 more")
    assert all(len(record.getMessage()) < 50_000 for record in caplog.records)


async def test_texts_of_servers_are_text_in_every_dialog() -> None:
    text = ""
    async with hostile_cluster() as (lookupd, nsqd), pages(lookupd.url) as client:
        client.headers["HX-Request"] = "true"
        for action in ("delete", "empty", "pause", "unpause", "tombstone"):
            order = {"action": action, "topic": "clicks", "node": nsqd.name if action == "tombstone" else ""}
            for channel in ("", "archive") if action != "tombstone" else ("",):
                order["channel"] = channel
                for reply in (
                    await client.get("/confirm", params=order),
                    await client.post("/actions", data=order),
                    await client.post("/actions", data={**order, "typed": channel or "clicks"}),
                ):
                    assert reply.status_code in (200, 409, 502)
                    assert Harm(reply.text).found == [], order
                    text = reply.text
        assert "&lt;script&gt;" in text  # the code with which the servers refuse
        for topic in (EVIL, "<b>"):
            for reply in (
                await client.get("/confirm", params={"action": "create", "topic": topic, "channel": topic}),
                await client.post("/actions", data={"action": "create", "topic": topic, "channel": topic}),
                await client.post("/actions", data={"action": topic, "topic": topic, "node": topic}),
            ):
                assert Harm(reply.text).found == []


@pytest.mark.parametrize("number", [0, -LARGE, LARGE, 2**64 - 1])
async def test_any_number_can_be_shown(number: int) -> None:
    async with hostile_cluster("host", number) as (lookupd, _), pages(lookupd.url) as client:
        await read(client)
        client.headers["HX-Request"] = "true"
        reply = await client.get("/confirm", params={"action": "delete", "topic": "clicks"})
        assert reply.status_code == 200


async def test_names_are_written_to_the_log_on_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async with hostile_cluster() as (lookupd, nsqd), pages(lookupd.url) as client:
        client.headers["X-Forwarded-User"] = "ann\x1b[2J"
        form = {"action": "tombstone", "topic": "clicks", "node": f"{EVIL}:{nsqd.port}", "typed": "clicks"}
        with caplog.at_level("INFO", "nsq_anyio.admin"):
            assert (await client.post("/actions", data=form)).status_code == 502
            form = {"action": "pause", "topic": "clicks"}
            assert (await client.post("/actions", data=form)).status_code == 502
    logged = [record.getMessage() for record in caplog.records if record.name.startswith("nsq_anyio.admin")]
    assert any("tombstone_topic_producer" in line for line in logged)
    for line in logged:
        assert line.isprintable(), line


BAD = {
    "deep": b"[" * 100_000,
    "not UTF-8": b'{"topics":[{"topic_name":"\xff"}]}',
    "not JSON": b"<html><script>alert(1)</script>",
    "another type": b'{"topics":[{"topic_name":1}]}',
    "many values": b'{"topics":[' + b"{}," * 200_000 + b"{}]}",
    "large": b'{"topics":[], "health": "' + b"x" * 3_000_000 + b'"}',
    "nothing": b"",
}


@pytest.mark.parametrize("body", BAD.values(), ids=BAD.keys())
async def test_a_bad_answer_is_an_error_of_its_server_alone(body: bytes) -> None:
    async with fake() as lookupd, fake() as good, fake() as bad:
        lookupd.answers = as_nsqlookupd([good.port, bad.port])
        good.answers = as_nsqd()
        bad.answers = {**as_nsqd(), "/stats": body}
        async with pages(lookupd.url, max_reply_size=2_000_000) as client:
            with anyio.fail_after(LIMIT):
                found = await read(client)
                assert "1 of 2" in found["/"]
                assert "/topics/clicks" in found["/topics"]
                client.headers["HX-Request"] = "true"
                reply = await client.get("/confirm", params={"action": "delete", "topic": "clicks"})
                assert title(reply) == "Delete topic clicks?"
                assert "not known:" in text(reply)


async def test_an_answer_without_end_is_left_at_the_bound() -> None:
    sent = 0
    chunk = b"10000\r\n" + b" " * 65536 + b"\r\n"

    async def endless_body(stream: anyio.abc.SocketStream) -> None:
        nonlocal sent
        await read_head(stream)
        await stream.send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            while sent < 1 << 30:
                await stream.send(chunk)
                sent += len(chunk)
        except anyio.BrokenResourceError:
            pass

    async with tcp_server(endless_body) as address:
        async with pages(address, max_reply_size=1_000_000, timeout=10.0, poll_interval=60.0) as client:
            with anyio.fail_after(LIMIT):
                assert (await client.get("/")).status_code == 200
    assert sent < 20_000_000  # of which the most is in the buffers of sockets


async def test_slow_servers_hold_nobody_up() -> None:
    async def trickle(stream: anyio.abc.SocketStream) -> None:
        await read_head(stream)
        await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        try:
            while True:
                await stream.send(b" ")
                await anyio.sleep(0.05)
        except anyio.BrokenResourceError:
            pass

    async with tcp_server(trickle) as slow, fake() as lookupd, fake() as good:
        port = int(slow.rpartition(":")[2])
        lookupd.answers = as_nsqlookupd([good.port, port])
        good.answers = as_nsqd()
        async with pages(lookupd.url, timeout=1.0) as client:
            with anyio.fail_after(LIMIT):
                assert "/topics/clicks" in (await client.get("/topics")).text
                client.headers["HX-Request"] = "true"
                reply = await client.get("/confirm", params={"action": "delete", "topic": "clicks"})
                assert "not known: no answer within 1 s" in text(reply)
                shown = {"messages": "49", "consumers": "14"}
                form = {"action": "delete", "topic": "clicks", "typed": "clicks", **shown}
                reply = await client.post("/actions", data=form)
                assert "may have done it all the same: no answer within 1 s" in text(reply)


async def test_an_nsqlookupd_that_never_answers_is_told_of() -> None:
    async with fake() as silent:
        silent.answers = dict.fromkeys(("/nodes", "/topics", "/lookup"), endless)
        async with pages(silent.url, timeout=0.5) as client:
            with anyio.fail_after(LIMIT):
                page = await client.get("/")
                assert silent.name in page.text
                assert "did not answer" in page.text


async def test_an_answer_that_redirects_is_not_followed() -> None:
    async with fake() as lookupd, fake() as trap:

        async def elsewhere() -> Response:
            return Response(302, headers=(("Location", f"{trap.url}/nodes"),))

        lookupd.answers = {**as_nsqlookupd([]), "/nodes": elsewhere, "/lookup": elsewhere}
        async with pages(lookupd.url) as client:
            await client.get("/lookup")
            client.headers["HX-Request"] = "true"
            await client.get("/confirm", params={"action": "delete", "topic": "clicks"})
        assert trap.asked == []


async def test_only_known_nodes_are_asked() -> None:
    async with fake() as lookupd, fake() as good, fake() as trap:
        lookupd.answers = as_nsqlookupd([good.port])
        good.answers = as_nsqd()
        async with pages(lookupd.url) as client:
            names = (trap.name, f"x@{trap.name}", f"{good.name}@{trap.name}", f"{trap.name}/", trap.url)
            for name in (*names, "169.254.169.254:80", f"[::ffff:127.0.0.1]:{trap.port}", good.name + "#"):
                path = f"/nodes/{httpx.QueryParams(n=name)}".replace("n=", "")
                assert (await client.get(path)).status_code in (301, 404), path
                client.headers["HX-Request"] = "true"
                order = {"action": "tombstone", "topic": "clicks", "node": name}
                for reply in (
                    await client.get("/confirm", params=order),
                    await client.post("/actions", data={**order, "typed": "clicks"}),
                ):
                    assert reply.status_code == 404
                    assert "No nsqlookupd names this nsqd" in reply.text
        assert trap.asked == []
        assert "/topic/delete" not in good.asked


def test_the_check_itself_finds_harm() -> None:
    for page in ("<script>1</script>", "<img src=x>", "<a onclick=x>", '<a href="javascript:1">', "<svg>"):
        assert Harm(page).found, page
    assert Harm(f"<p>{json.dumps(EVIL).replace('<', '&lt;')}</p>").found == []
