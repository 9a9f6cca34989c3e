"""Paths and queries that lead out, or that are too long."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import anyio
import pytest

from nsq_anyio.admin import AdminOptions, app
from nsq_anyio.serving.asgi_server import serve_asgi
from nsq_anyio.serving.listener import local_port, open_listener
from nsq_anyio.tasks import background_tasks

from .test_application import cluster
from .test_pages import dashboard

pytestmark = pytest.mark.anyio

OUT = (
    "../admin.css",
    "../../pages.py",
    "..%2f..%2fpages.py",
    "%2e%2e/%2e%2e/pages.py",
    "..\\..\\pages.py",
    "/etc/passwd",
    "%2fetc%2fpasswd",
    "....//pages.py",
    "admin.css%00.js",
    "admin.css/",
    "vendor/",
    "vendor/../admin.css",
    "vendor/README.md",
    "vendor/htmx.LICENSE",
    "",
)


@dataclass
class Reply:
    status: int
    headers: dict[str, str]
    text: str


@asynccontextmanager
async def served(**options: Any) -> AsyncGenerator[Callable[[str], Awaitable[Reply]]]:
    """Serve an application; what is yielded sends a path exactly as it is."""
    values: dict[str, Any] = {"poll_interval": 0.05, **options}
    async with (
        cluster() as (url, _),
        app(url, options=AdminOptions(**values)) as application,
        await open_listener("127.0.0.1", 0) as listener,
        background_tasks() as tasks,
    ):
        tasks.start_soon(serve_asgi, listener, application)

        async def ask(path: str) -> Reply:
            async with await anyio.connect_tcp("127.0.0.1", local_port(listener)) as stream:
                await stream.send(f"GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
                sent = b""
                with suppress(anyio.EndOfStream):
                    while True:
                        sent += await stream.receive()
            head, _, body = sent.decode().partition("\r\n\r\n")
            status, *lines = head.split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
            return Reply(int(status.split()[1]), headers, body)

        yield ask


async def test_no_path_leads_out_of_the_static_files() -> None:
    async with served() as ask:
        page = (await ask("/")).text
        here = page.partition('href="/static/')[2].partition("/")[0]
        assert len(here) == 16
        for path in OUT:
            for start in (f"/static/{here}/", "/static/", f"/static/{here}/vendor/"):
                reply = await ask(start + path)
                assert reply.status in (301, 400, 404), start + path
                assert "import" not in reply.text
                assert "root:" not in reply.text
        assert (await ask(f"/static/{here}/admin.css")).status == 200


@pytest.mark.parametrize("base", ["/", "/nsq"])
async def test_no_path_leads_out_of_the_base_path(base: str) -> None:
    async with served(base_path=base) as ask:
        root = base.rstrip("/")
        for path in (
            "//evil.example",
            "//evil.example/",
            "//evil.example/topics/",
            "//evil.example/..",
            f"{root}//evil.example/",
            f"{root}/topics//evil.example/",
            f"{root}/topics/%2f%2fevil.example/",
            f"{root}/\\evil.example/",
            f"{root}/topics/a%0d%0aSet-Cookie:%20a=b/",
            f"{root}/topics/a%0d%0aSet-Cookie:%20a=b/c%0d%0a/",
            f"{root}/nodes/a%0d%0aX:%20y/",
            f"{root}/%2e%2e/api/topics/",
            f"{root}/..",
            f"{root}/%2e%2e%2f",
            f"{root}x/" if root else "/x/",
        ):
            reply = await ask(path)
            assert reply.status in (200, 301, 307, 400, 404), path
            assert "set-cookie" not in reply.headers
            assert "x" not in reply.headers
            place = reply.headers.get("location", f"{root}/")
            assert place.startswith(f"{root}/"), (path, place)
            assert not place.startswith("//"), (path, place)
            assert not place.startswith("/\\"), (path, place)
            assert place.isprintable()
            if root and not path.startswith(f"{root}/"):
                assert reply.status in (400, 404), path


@pytest.mark.parametrize("name", ["q", "sort", "page"])
async def test_a_long_query_makes_no_long_page(name: str) -> None:
    async with dashboard() as client:
        for path in ("/", "/topics", "/topics/clicks", "/nodes", "/lookup", "/counter"):
            for value in ("x" * 30_000, "%22%3E" * 5_000, "9" * 5_000, "%ff", "%00", "\u0661"):
                reply = await client.get(f"{path}?{name}={value}")
                assert reply.status_code in (200, 400, 404), (path, value[:10])
                assert len(reply.content) < 200_000, (path, value[:10])


async def test_queries_that_cannot_be_read_are_explained() -> None:
    async with served() as ask:
        for query in ("%zz", "a;b", "q=%"):
            for path in ("/topics", "/confirm"):
                reply = await ask(f"{path}?{query}")
                assert reply.status == 400
                assert "<h1>" in reply.text
