"""An nsqd that refuses plain HTTP is asked again by https, at the port that it names."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from nsq_anyio.errors import HTTPStatusError, HTTPUnavailable
from nsq_anyio.http import Nsqd

pytestmark = pytest.mark.anyio

Answer = Callable[[httpx.Request], httpx.Response]


def refusing(port: object = 4152, status: int = 403) -> Answer:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.scheme == "https":
            return httpx.Response(200, content=b"OK")
        return httpx.Response(status, content=json.dumps({"message": "TLS_REQUIRED", "https_port": port}))

    return answer


async def asked(answer: Answer, url: str = "http://u:p@n:4151/nsq?token=t", **options: Any) -> list[str]:
    seen: list[str] = []

    def note(request: httpx.Request) -> httpx.Response:
        seen.append(f"{request.method} {request.url} {request.content.decode()}")
        assert request.headers["authorization"]
        return answer(request)

    async with Nsqd(url, transport=httpx.MockTransport(note), **options) as nsqd:
        try:
            await nsqd.publish("t", b"body")
        except HTTPStatusError as error:
            seen.append(f"{error.status} {error.code}")
    return seen


async def test_it_is_asked_again() -> None:
    assert await asked(refusing()) == [
        "POST http://n:4151/nsq/pub?token=t&topic=t body",
        "POST https://n:4152/nsq/pub?token=t&topic=t body",
    ]


async def test_an_ipv6_address_keeps_its_brackets() -> None:
    found = await asked(refusing(), "http://u:p@[::1]:4151")
    assert found[-1] == "POST https://[::1]:4152/pub?topic=t body"


@pytest.mark.parametrize("port", [0, -1, 65536, "4152", True, None, 4152.0])
async def test_a_port_that_is_none_is_not_asked(port: object) -> None:
    assert (await asked(refusing(port)))[1:] == ["403 TLS_REQUIRED"]


async def test_other_refusals_are_refusals() -> None:
    assert (await asked(refusing(status=401)))[1:] == ["401 TLS_REQUIRED"]

    def forbid(_: httpx.Request) -> httpx.Response:
        return httpx.Response(403, content=b'{"message":"FORBIDDEN"}')

    assert (await asked(forbid))[1:] == ["403 FORBIDDEN"]


async def test_it_goes_round_no_circle() -> None:
    def refuse(_: httpx.Request) -> httpx.Response:
        return httpx.Response(403, content=b'{"message":"TLS_REQUIRED","https_port":4152}')

    found = await asked(refuse)
    assert found[-1] == "403 TLS_REQUIRED"
    assert len(found) == 3


async def test_errors_name_what_was_asked_last() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.scheme == "https":
            raise httpx.ConnectError("refused")
        return refusing()(request)

    async with Nsqd("http://n:4151", transport=httpx.MockTransport(answer)) as nsqd:
        with pytest.raises(HTTPUnavailable, match="refused") as caught:
            await nsqd.ping()
    assert caught.value.url == "https://n:4152/ping"
