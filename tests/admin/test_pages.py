"""Pages over HTTP: their headers, parts of them for htmx, their files, and what is refused."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx
import pytest

from nsq_anyio.admin import AdminOptions, app

from .test_application import Below, cluster

pytestmark = pytest.mark.anyio

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)


@asynccontextmanager
async def dashboard(
    root: str = "", *, path_has_root: bool = True, **options: object
) -> AsyncGenerator[httpx.AsyncClient]:
    given = AdminOptions(**{"poll_interval": 0.05, **options})  # type: ignore[arg-type]
    async with cluster() as (url, _), app(url, options=given) as application:
        transport = Below(application, root, path_has_root=path_has_root)
        async with httpx.AsyncClient(transport=transport, base_url="http://admin") as client:
            yield client


async def test_a_page_has_the_headers_that_keep_it_safe() -> None:
    async with dashboard() as client:
        for path in ("/", "/static/none"):
            reply = await client.get(path)
            assert reply.headers["x-content-type-options"] == "nosniff"
        reply = await client.get("/")
        assert reply.status_code == 200
        assert reply.headers["content-type"] == "text/html; charset=utf-8"
        assert reply.headers["content-security-policy"] == POLICY
        assert reply.headers["referrer-policy"] == "same-origin"
        assert reply.headers["cross-origin-opener-policy"] == "same-origin"
        assert reply.headers["vary"] == "HX-Request, Accept-Encoding"
        assert "set-cookie" not in reply.headers
        assert reply.headers.get_list("x-content-type-options") == ["nosniff"]


async def test_a_page_needs_no_inline_script_or_style() -> None:
    async with dashboard() as client:
        page = (await client.get("/")).text
        assert "<style" not in page
        assert not re.search(r"<script(?![^>]*\ssrc=)", page)
        assert not re.search(r"\s(style|on\w+)=", page)


async def test_htmx_gets_the_part_that_changes() -> None:
    async with dashboard() as client:
        part = (await client.get("/", headers={"HX-Request": "true"})).text
        assert "<html" not in part
        assert '<p id="status" hx-swap-oob="true"' in part
        assert part.strip() != ""
        whole = await client.get("/", headers={"HX-Request": "true", "HX-History-Restore-Request": "true"})
        assert "<html" in whole.text


async def test_everything_on_a_page_is_below_its_root() -> None:
    for path_has_root in (True, False):
        async with dashboard("/host", path_has_root=path_has_root, base_path="/nsq/") as client:
            for path in ("/host/nsq/", "/host/nsq"):
                page = (await client.get(path)).text
                links = re.findall(r'\s(?:href|src|hx-get)="([^"]*)"', page)
                assert len(links) > 8
                assert [link for link in links if not link.startswith(("/host/nsq/", "#", "?"))] in (
                    [],
                    ["/host/nsq"],  # the page itself
                )
                for link in set(re.findall(r'src="([^"]*)"', page)):
                    assert (await client.get(link)).status_code == 200, link
            assert 'data-root="/host/nsq"' in page


async def test_files_are_kept_by_browsers_and_sent_compressed() -> None:
    async with dashboard() as client:
        page = (await client.get("/")).text
        path = re.findall(r'src="([^"]*htmx.min.js)"', page)[0]
        reply = await client.get(path)
        assert reply.headers["content-type"] == "text/javascript; charset=utf-8"
        assert "immutable" in reply.headers["cache-control"]
        assert reply.headers["content-encoding"] == "gzip"
        assert reply.headers["vary"] == "Accept-Encoding"
        for accepted in ("identity", "gzip;q=0", "*, gzip;q=0", "gzip;q=0.2, identity;q=0.7", "br"):
            plain = await client.get(path, headers={"Accept-Encoding": accepted})
            assert "content-encoding" not in plain.headers
            assert plain.content == reply.content


@pytest.mark.parametrize(
    "name",
    [
        "../pages.py",
        "..%2fpages.py",
        "%2e%2e/pages.py",
        "%2e%2e%2fpages.py",
        "..\\pages.py",
        "%5c..%5cpages.py",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "vendor/README.md",
        "vendor",
        "vendor/",
        "",
        "admin.js%00",
        "ADMIN.JS",
        "%ff",
    ],
)
async def test_no_path_leads_out_of_the_files(name: str) -> None:
    async with dashboard() as client:
        page = (await client.get("/")).text
        base = re.findall(r'src="(/static/[^/]*/)', page)[0]
        assert (await client.get(f"{base}admin.js")).status_code == 200
        for prefix in (base, "/static/", "/static/0000000000000000/"):
            assert (await client.get(prefix + name)).status_code == 404


async def test_a_host_that_is_not_allowed_gets_an_error_page() -> None:
    async with dashboard(allowed_hosts=["admin"]) as client:
        assert (await client.get("/")).status_code == 200
        reply = await client.get("/", headers={"Host": "evil.example"})
        assert reply.status_code == 403
        assert "--allowed-host" in reply.text
        assert reply.headers["content-security-policy"] == POLICY


async def test_a_query_that_cannot_be_read_gets_an_error_page() -> None:
    async with dashboard() as client:
        reply = await client.get("/?q=%zz")
        assert reply.status_code == 400
        assert "cannot be read" in reply.text


async def test_pages_are_only_read() -> None:
    async with dashboard() as client:
        assert (await client.head("/")).status_code == 200
        for method in ("POST", "PUT", "DELETE"):
            assert (await client.request(method, "/")).status_code in (404, 405)


async def test_a_dashboard_that_is_not_open_says_so() -> None:
    async with cluster() as (url, _):
        transport = Below(app(url))
        async with httpx.AsyncClient(transport=transport, base_url="http://admin") as client:
            reply = await client.get("/topics", headers={"Accept": "text/html,*/*"})
            assert reply.status_code == 503
            assert "lifespan" in reply.text
            assert (await client.get("/topics")).status_code == 404
            reply = await client.get("/api/topics", headers={"Accept": "text/html"})
            assert reply.json()["topics"] == ["clicks"]
