"""The HTTP side of the embedded nsqd: its settings, and requests that are nearly right."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx
import pytest

from nsq_anyio import embedded

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def http() -> AsyncGenerator[httpx.AsyncClient]:
    async with (
        embedded.nsqd() as nsqd,
        httpx.AsyncClient(base_url=nsqd.http_url, trust_env=False) as client,
    ):
        yield client


async def test_settings_are_read_and_changed() -> None:
    async with http() as client:
        assert (await client.get("/config/max_rdy_count")).json() == 2500
        reply = await client.put("/config/log_level", content=b"DEBUG")
        assert reply.status_code == 200
        assert (await client.get("/config/log_level")).text == reply.text
        for value in (b"[]", b"null", b'["", null]'):
            reply = await client.put("/config/nsqlookupd_tcp_addresses", content=value)
            assert reply.status_code == 200
        assert reply.json() == ["", ""]


@pytest.mark.parametrize(
    ("method", "option", "content", "status", "code"),
    [
        ("GET", "unknown", b"", 400, "INVALID_OPTION"),
        ("PUT", "max_rdy_count", b"1", 400, "INVALID_OPTION"),
        ("PUT", "log_level", b"loud", 400, "INVALID_VALUE"),
        ("PUT", "log_level", b"", 413, "INVALID_VALUE"),
        ("PUT", "nsqlookupd_tcp_addresses", b"[", 400, "INVALID_VALUE"),
        ("PUT", "nsqlookupd_tcp_addresses", b"{}", 400, "INVALID_VALUE"),
        ("PUT", "nsqlookupd_tcp_addresses", b"[1]", 400, "INVALID_VALUE"),
    ],
)
async def test_a_setting_that_is_refused(
    method: str, option: str, content: bytes, status: int, code: str
) -> None:
    async with http() as client:
        reply = await client.request(method, f"/config/{option}", content=content)
        assert (reply.status_code, reply.json()) == (status, {"message": code})


@pytest.mark.parametrize(
    ("method", "path", "status", "location"),
    [
        ("GET", "/ping/", 301, "/ping"),
        ("GET", "//ping", 301, "/ping"),
        ("GET", "/PING?a=b", 301, "/ping?a=b"),
        ("GET", "/Config/log_level", 301, "/config/log_level"),
        ("POST", "/topic/create/?topic=t", 307, "/topic/create?topic=t"),
    ],
)
async def test_a_path_that_is_nearly_right_is_redirected(
    method: str, path: str, status: int, location: str
) -> None:
    async with http() as client:
        reply = await client.request(method, str(client.base_url).rstrip("/") + path)
        assert reply.status_code == status
        assert reply.headers["Location"].removeprefix(str(client.base_url).rstrip("/")) == location


async def test_a_method_that_is_not_allowed() -> None:
    async with http() as client:
        reply = await client.put("/ping")
        assert (reply.status_code, reply.json()) == (405, {"message": "METHOD_NOT_ALLOWED"})
        assert reply.headers["Allow"] == "GET, OPTIONS"
        reply = await client.options("/ping")
        assert (reply.status_code, reply.content, reply.headers["Allow"]) == (200, b"", "GET, OPTIONS")
        reply = await client.get("/nowhere")
        assert (reply.status_code, reply.json()) == (404, {"message": "NOT_FOUND"})
