"""Responses are compressed for those who accept it, and for nobody else."""

from __future__ import annotations

import gzip
import tracemalloc

import pytest

from nsq_anyio.serving.compression import Compression, accepts_gzip
from nsq_anyio.serving.http_messages import Request, Response, Target

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("accepted", "expected"),
    [
        ("gzip", True),
        ("GZIP", True),
        ("x-gzip", True),
        ("br, deflate , gzip;q=0.5", True),
        ("gzip ; q=1.000", True),
        ("*", True),
        ("identity;q=0.5, *;q=0.8", True),
        ("gzip;q=0.5, identity;q=0.5", True),
        ("", False),
        ("br", False),
        ("gzip;q=0", False),
        ("gzip;q=0.000", False),
        ("gzip;q=0, *", False),
        ("*;q=0", False),
        ("gzip;q=0.2, identity;q=0.7", False),
        ("gzip;q=high", False),
        ("gzip;q=2", False),
        ("gzip;q=-1", False),
        ("gzip;q=nan", False),
        ("gzipped", False),
        (";q=1", False),
        (",,;;", False),
    ],
)
def test_who_accepts_gzip(accepted: str, expected: bool) -> None:
    assert accepts_gzip(accepted) is expected


PAGE = b"<p>page</p>" * 1000


def asked(accepted: str | None = "gzip") -> Request:
    headers = {} if accepted is None else {"accept-encoding": accepted}
    return Request("GET", Target("/"), headers)


def response(body: bytes = PAGE, kind: str = "text/html; charset=utf-8", *more: tuple[str, str]) -> Response:
    return Response(200, body, (("Content-Type", kind), *more))


@pytest.mark.parametrize("kind", ["text/html; charset=utf-8", "Application/JSON", "image/svg+xml"])
@pytest.mark.parametrize("copies", [1, 50])
async def test_it_is_compressed(kind: str, copies: int) -> None:
    found = await Compression()(asked(), response(PAGE * copies, kind))
    assert gzip.decompress(found.body) == PAGE * copies
    headers = dict(found.headers)
    assert (headers["Content-Encoding"], headers["Vary"]) == ("gzip", "Accept-Encoding")
    assert headers["Content-Type"] == kind


@pytest.mark.parametrize("accepted", [None, "br", "gzip;q=0"])
async def test_caches_are_told_that_there_is_another_form(accepted: str | None) -> None:
    given = response(PAGE, "text/html", ("Vary", "HX-Request"))
    found = await Compression()(asked(accepted), given)
    assert found.body == PAGE
    assert "Content-Encoding" not in dict(found.headers)
    assert dict(found.headers)["Vary"] == "HX-Request, Accept-Encoding"


@pytest.mark.parametrize(
    "left",
    [
        response(b"short"),
        response(PAGE, "text/css"),
        response(PAGE, "text/event-stream"),
        response(PAGE, "text/html", ("content-encoding", "br")),
        Response(304),
    ],
)
async def test_what_is_left_as_it_is(left: Response) -> None:
    assert await Compression()(asked(), left) is left


async def test_a_strong_etag_does_not_promise_what_is_not_kept() -> None:
    compression = Compression()
    for tag, expected in (('"a"', 'W/"a"'), ('W/"a"', 'W/"a"')):
        given = response(PAGE, "text/html", ("ETag", tag))
        assert dict((await compression(asked(), given)).headers)["ETag"] == expected
        assert dict((await compression(asked(None), given)).headers)["ETag"] == tag


async def test_a_body_is_compressed_once() -> None:
    compression = Compression()
    first = await compression(asked(), response())
    assert (await compression(asked(), response())).body is first.body


async def test_what_it_remembers_is_bounded() -> None:
    compression = Compression(most_bytes=100_000)
    tracemalloc.start()
    try:
        for number in range(200):
            await compression(asked(), response(b"%d" % number + PAGE))
        assert tracemalloc.get_traced_memory()[0] < 500_000
    finally:
        tracemalloc.stop()
