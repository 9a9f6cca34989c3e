"""Who may act by the pages: no page of another site, nobody in read-only mode, and administrators alone."""

import httpx
import pytest

from nsq_anyio.admin import AdminOptions, app

from .test_actions import OWN, stage, text
from .test_application import PAUSE, Below, asking, cluster

pytestmark = pytest.mark.anyio

PAUSED = {"action": "pause", "topic": "clicks"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),  # as a plain form of any site
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Origin": "http://admin"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 403),
        ({"X-Requested-With": "htmx"}, 200),  # by a script, which names no origin
        ({"X-Requested-With": "htmx", "Sec-Fetch-Site": "same-origin"}, 200),
        ({"X-Requested-With": "htmx", "Sec-Fetch-Site": "cross-site"}, 403),
        ({"X-Requested-With": "htmx", "Sec-Fetch-Site": "same-site"}, 403),
        ({"X-Requested-With": "htmx", "Sec-Fetch-Site": "none"}, 403),
        ({"X-Requested-With": "htmx", "Sec-Fetch-Site": ""}, 403),
        ({"X-Requested-With": "htmx", "Sec-Fetch-Site": "Same-Origin"}, 403),
        ({"X-Requested-With": "htmx", "Origin": "http://admin"}, 200),
        ({"X-Requested-With": "htmx", "Origin": "https://admin"}, 200),  # a proxy speaks HTTPS for it
        ({"X-Requested-With": "htmx", "Origin": "HTTP://ADMIN"}, 200),
        ({"X-Requested-With": "htmx", "Origin": "null"}, 403),
        ({"X-Requested-With": "htmx", "Origin": ""}, 403),
        ({"X-Requested-With": "htmx", "Origin": "http://evil.example"}, 403),
        ({"X-Requested-With": "htmx", "Origin": "http://admin.evil.example"}, 403),
        ({"X-Requested-With": "htmx", "Origin": "http://evil.example/admin"}, 403),
        ({"X-Requested-With": "htmx", "Origin": "http://admin:8080"}, 403),
        ({"X-Requested-With": "htmx", "Origin": "http://user@admin"}, 403),
        ({"X-Requested-With": "htmx", "Origin": "file://admin"}, 403),
        ({"X-Requested-With": "htmx", "Origin": "admin"}, 403),
        ({"X-Requested-With": "htmx", "Origin": "http://admin, http://evil.example"}, 403),
        (  # a proxy that replaces Host: the browser's own word counts
            {"X-Requested-With": "htmx", "Origin": "http://x.example", "Sec-Fetch-Site": "same-origin"},
            200,
        ),
        ({"X-Requested-With": "htmx", "Origin": "http://admin", "Sec-Fetch-Site": "cross-site"}, 403),
    ],
)
async def test_no_page_of_another_site_acts(headers: dict[str, str], status: int) -> None:
    async with cluster() as (url, _), app(url) as application:
        transport = Below(application)
        async with httpx.AsyncClient(transport=transport, base_url="http://admin") as client:
            reply = await client.post("/actions", data=PAUSED, headers=headers)
            assert reply.status_code == status
            if status == 403:
                assert "did not come from a page of this dashboard" in text(reply)
            assert (await client.get("/api/topics/clicks")).json()["paused"] is (status == 200)


async def test_repeated_headers_do_not_pass_for_one() -> None:
    async with cluster() as (url, _), app(url) as application:
        async with httpx.AsyncClient(transport=Below(application), base_url="http://admin") as client:
            for name, values in (
                ("Sec-Fetch-Site", ("same-origin", "cross-site")),
                ("Origin", ("http://admin", "http://evil.example")),
                ("Origin", ("http://evil.example", "http://admin")),
            ):
                headers = [("X-Requested-With", "htmx"), *((name, value) for value in values)]
                assert (await client.post("/actions", data=PAUSED, headers=headers)).status_code == 403


async def test_a_get_does_nothing() -> None:
    async with stage() as here:
        for path in ("/actions", "/confirm"):
            for method in ("GET", "HEAD", "PUT", "DELETE", "OPTIONS"):
                await here.client.request(method, path, params={**PAUSED, "typed": "clicks"})
        assert [topics[0].paused for topics in await here.topics()] == [False, False]


REFUSED: list[list[tuple[str, str]]] = [
    [],
    [("X-User", "bob")],
    [("X-User", "Ann")],
    [("X-User", " ann")],
    [("X-User", "ann,ann")],
    [("X-User", "")],
    [("X-User", "ann"), ("X-User", "bob")],
    [("X-User", "bob"), ("x-user", "ann")],
    [("X-User", "ann"), ("x-USER", "ann")],
    [("X_User", "ann")],
    [("X-Forwarded-User", "ann")],
]
OFFERED = ("/confirm?", "Create channel")


async def test_only_administrators_see_actions_and_act() -> None:
    async with stage(admin_users=["ann"], acl_http_header="X-User") as here:
        for headers in REFUSED[:3] + REFUSED[4:]:  # httpx takes the space of the fourth away
            sent = [*OWN.items(), *headers]
            page = await here.client.get("/topics/clicks", headers=headers)
            assert page.status_code == 200
            assert not any(part in page.text for part in OFFERED), headers
            for reply in (
                await here.client.get("/confirm", params=PAUSED, headers=sent),
                await here.client.get("/confirm?action=create", headers=sent),
                await here.client.post("/actions", data=PAUSED, headers=sent),
                await here.client.post("/actions", data={"action": "explode"}, headers=sent),
            ):
                assert reply.status_code == 403
                assert "Only administrators may do this." in text(reply)
        assert [topics[0].paused for topics in await here.topics()] == [False, False]
        for name in ("X-User", "x-user"):
            page = await here.client.get("/topics/clicks", headers={name: "ann"})
            assert all(part in page.text for part in OFFERED)
            assert (await here.client.post("/actions", data=PAUSED, headers={name: "ann"})).status_code == 200


async def test_a_name_that_is_not_ascii_is_sent_in_utf_8(caplog: pytest.LogCaptureFixture) -> None:
    async with stage(admin_users=["jürgen", "阿英"]) as here:
        for name, status in (
            ("jürgen".encode(), 200),
            ("阿英".encode(), 200),
            ("jürgen".encode("latin-1"), 403),
            ("ju\u0308rgen".encode(), 403),
            (b"jurgen", 403),
            (b"\xff", 403),
        ):
            headers = {b"X-Forwarded-User": name}
            with caplog.at_level("INFO", "nsq_anyio.admin"):
                reply = await here.client.post("/actions", data=PAUSED, headers=headers)
            assert reply.status_code == status, name
    assert "by jürgen from" in caplog.text


async def test_a_page_of_an_administrator_is_not_shown_to_others() -> None:
    async with stage(admin_users=["ann"], poll_interval=60.0) as here:
        for user, is_offered in (("ann", True), ("bob", False), ("ann", True)):
            page = await here.client.get("/topics/clicks", headers={"X-Forwarded-User": user})
            assert ("/confirm?" in page.text) is is_offered
            assert "private" in page.headers["cache-control"]


@pytest.mark.parametrize("users", [(), ("ann",)])
async def test_nobody_acts_in_read_only_mode(users: tuple[str, ...]) -> None:
    async with stage(read_only=True, admin_users=users) as here:
        here.client.headers["X-Forwarded-User"] = "ann"
        for path in ("/", "/topics", "/topics/clicks", "/topics/clicks/archive", "/nodes", "/lookup"):
            page = await here.client.get(path)
            assert page.status_code == 200
            assert "/confirm?" not in page.text, path
        for reply in (
            await here.confirm(**PAUSED),
            await here.confirm(action="create"),
            await here.act(**PAUSED),
        ):
            assert reply.status_code == 403
            assert "This dashboard is read-only" in text(reply)
        node = here.names[0]
        for method, path, body in (
            ("POST", "/api/topics", b'{"topic":"t"}'),
            ("POST", "/api/topics/clicks", PAUSE),
            ("POST", "/api/topics/clicks/archive", PAUSE),
            ("DELETE", "/api/topics/clicks/archive", b""),
            ("DELETE", "/api/topics/clicks", b""),
            ("DELETE", f"/api/nodes/{node}", b'{"topic":"clicks"}'),
            ("PUT", "/config/log_level", b"info"),
            ("PUT", "/config/nsqlookupd_http_addresses", b'["http://127.0.0.1:1"]'),
        ):
            reply = await here.client.request(method, path, content=body)
            assert (reply.status_code, reply.json()) == (403, {"message": "READ_ONLY"}), path
        assert (await here.client.get("/config/log_level")).status_code == 200
        found = await here.topics()
        assert [len(topics) for topics in found] == [1, 1]
        assert [topics[0].paused or topics[0].channels[0].paused for topics in found] == [False, False]


async def test_a_request_for_another_host_is_refused() -> None:
    async with stage(allowed_hosts=["admin"]) as here:
        for reply in (
            await here.client.get("/confirm", params=PAUSED, headers={"Host": "evil.example"}),
            await here.client.post("/actions", data=PAUSED, headers={"Host": "evil.example"}),
        ):
            assert reply.status_code == 403
        assert [topics[0].paused for topics in await here.topics()] == [False, False]


async def test_forms_are_bounded_and_checked() -> None:
    async with app("127.0.0.1:1", options=AdminOptions(poll_interval=0.05)) as application:
        async with asking(application) as client:
            for body, status in (
                (b"a" * 20_000, 413),
                (b"action=pause&topic=" + b"x" * 16_000, 400),
                (b"&".join([b"a=1"] * 1000), 400),
                (b"action=pause&action=delete&topic=t", 400),
                (b"action=pause&topic=%ff", 400),
                (b"action=pause&topic=\xff", 400),
                (b"", 400),
                (b"{}", 400),
            ):
                reply = await client.post("/actions", content=body, headers=OWN)
                assert reply.status_code == status, body[:40]
                assert 'id="dialog-title"' in reply.text
