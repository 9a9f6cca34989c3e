"""How the embedded nsqd asks auth servers by HTTP; `test_embedded_upgrades_like_real` compares it."""

import json
import logging
import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import pytest

from nsq_anyio import embedded
from nsq_anyio.embedded import AuthRequest, AuthState, NsqdOptions
from nsq_anyio.embedded.nsqd.auth import NoAuthorization
from nsq_anyio.embedded.nsqd.auth_http import AuthServers
from nsq_anyio.serving.http_messages import Request, Response
from nsq_anyio.serving.http_server import serve_http
from nsq_anyio.serving.listener import local_port, open_listener
from tests.embedded.raw_client import raw_client, sized, until
from tests.tls_files import TLSFiles

pytestmark = pytest.mark.anyio

SECRET = "a secret & more=#%"
ASKED = AuthRequest(SECRET, "10.1.2.3", tls=True, common_name="me ")
GRANT = {"topic": "t", "channels": [".*"], "permissions": ["subscribe", "publish"]}
ANSWER: dict[str, Any] = {"ttl": 60, "identity": "me", "identity_url": "u", "authorizations": [GRANT]}


class Backend:
    """An auth server that answers what a test wants it to."""

    def __init__(self, body: bytes | None = None, status: int = 200) -> None:
        self.body = json.dumps(ANSWER).encode() if body is None else body
        self.status = status
        self.requests: list[Request] = []
        self.address = ""

    async def __call__(self, request: Request) -> Response:
        self.requests.append(request)
        return Response(self.status, self.body)


@asynccontextmanager
async def serving(
    backend: Callable[[Request], Awaitable[Response]], tls: ssl.SSLContext | None = None
) -> AsyncGenerator[str]:
    """Its address."""
    async with await open_listener("127.0.0.1", 0) as listener, anyio.create_task_group() as tasks:
        tasks.start_soon(partial(serve_http, listener, backend, tls=tls))
        yield f"127.0.0.1:{local_port(listener)}"
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def closed_port() -> AsyncGenerator[str]:
    """An address where nothing listens; taken, so that nothing will."""
    async with await open_listener("127.0.0.1", 0) as listener:
        port = local_port(listener)
    yield f"127.0.0.1:{port}"


def servers(*addresses: str, **options: Any) -> AuthServers:
    return AuthServers(NsqdOptions(auth_http_addresses=addresses, **options))


async def test_what_is_asked_and_answered() -> None:
    backend = Backend()
    async with serving(backend) as address:
        state = await servers(address)(ASKED)
    assert isinstance(state, AuthState)
    assert (state.ttl, state.identity, state.identity_url) == (60, "me", "u")
    assert state.allows("t", "c")
    assert not state.allows("x", "c")
    (request,) = backend.requests
    assert (request.method, request.target.path) == ("GET", "/auth")
    assert parse_qs(request.target.query, keep_blank_values=True) == {
        "remote_ip": ["10.1.2.3"],
        "tls": ["true"],
        "secret": [SECRET],
        "common_name": ["me "],
    }
    assert request.headers["accept"] == "application/vnd.nsq; version=1.0"


@pytest.mark.parametrize(
    ("suffix", "path", "query"),
    [
        ("/check/me", "/check/me", {}),
        ("", "/", {}),
        ("/check?tenant=5", "/check", {"tenant": ["5"]}),
    ],
)
async def test_a_url_is_taken_as_it_is(suffix: str, path: str, query: dict[str, list[str]]) -> None:
    backend = Backend()
    async with serving(backend) as address:
        await servers(f"http://user:word@{address}{suffix}")(ASKED)
    (request,) = backend.requests
    assert request.target.path == path
    received = parse_qs(request.target.query)
    assert query.items() <= received.items()
    assert received["secret"] == [SECRET]
    assert request.headers["authorization"] == "Basic dXNlcjp3b3Jk"


async def test_one_after_the_other_is_asked_from_a_random_one_on() -> None:
    good, bad = Backend(), Backend(status=500)
    async with serving(good) as good_address, serving(bad) as bad_address, closed_port() as closed:
        source = servers(bad_address, good_address, closed)
        for _ in range(40):
            assert (await source(ASKED)).identity == "me"
    assert len(good.requests) == 40
    assert 0 < len(bad.requests) < 40


async def test_all_failures_are_told() -> None:
    bad = Backend(status=500)
    async with serving(bad) as bad_address, closed_port() as closed:
        with pytest.raises(NoAuthorization) as caught:
            await servers(bad_address, closed)(ASKED)
    assert f"failed to auth against http://{bad_address}: it answered with 500" in str(caught.value)
    assert f"failed to auth against http://{closed}: cannot connect: " in str(caught.value)


def answer(**changes: Any) -> bytes:
    return json.dumps({**ANSWER, **changes}).encode()


def grant(**changes: Any) -> bytes:
    return answer(authorizations=[{**GRANT, **changes}])


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "not valid"),
        (b"no json", "not valid"),
        (b"\xff", "not UTF-8"),
        (b"[]", "not an object"),
        (b"null", "not an object"),
        (b"[" * 100_000, "not valid"),
        (b"{}", r"invalid TTL 0 \(must be >0\)"),
        (answer(ttl=0), "invalid TTL 0"),
        (answer(ttl=-1), "invalid TTL -1"),
        (answer(ttl=1.5), "ttl is not of type int"),
        (answer(ttl="60"), "ttl is not of type int"),
        (answer(ttl=True), "ttl is not of type int"),
        (answer(identity=5), "identity is not of type str"),
        (answer(identity_url=[]), "identity_url is not of type str"),
        (answer(authorizations={}), "authorizations is not of type list"),
        (answer(authorizations=[5]), "not an object"),
        (grant(topic="("), r"'\(' is not a regular"),
        (grant(topic=5), "topic is not of type str"),
        (grant(channels=["["]), r"'\[' is not a regular"),
        (grant(channels=[5]), "channels has elements that are not strings"),
        (grant(channels="c"), "channels is not of type list"),
        (grant(permissions=["read"]), "permission 'read'"),
        (grant(permissions=[["publish"]]), "permissions has elements that are not strings"),
        (answer(identity="x" * 2_000_000), "exceeds 1048576 bytes"),
    ],
)
async def test_bad_answers(body: bytes, reason: str) -> None:
    async with serving(Backend(body)) as address:
        with pytest.raises(NoAuthorization, match=reason):
            await servers(address)(ASKED)


@pytest.mark.parametrize(
    "body",
    [
        b'{"TTL":60,"Identity":"me","authorizations":null}',
        b'{"ttl":60,"identity":"me","identity_url":null,"extra":[{}]}',
    ],
)
async def test_answers_are_read_as_by_go(body: bytes) -> None:
    async with serving(Backend(body)) as address:
        state = await servers(address)(ASKED)
    assert (state.identity, state.identity_url, list(state.authorizations)) == ("me", "", [])


@pytest.mark.parametrize("status", [201, 301, 404, 403, 500])
async def test_other_statuses_are_no_answer(status: int) -> None:
    async with serving(Backend(status=status)) as address:
        with pytest.raises(NoAuthorization, match=f"it answered with {status}"):
            await servers(address)(ASKED)


async def test_a_server_that_never_answers() -> None:
    async def never(_: Request) -> Response:
        await anyio.sleep_forever()
        raise AssertionError

    async with serving(never) as address:
        start = anyio.current_time()
        with pytest.raises(NoAuthorization, match=r"no answer within http_client_request_timeout=0\.1 s"):
            await servers(address, http_client_request_timeout=0.1)(ASKED)
        assert 0.09 < anyio.current_time() - start < 2


@pytest.mark.parametrize("reply", [b"", b"SSH-2.0-x\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"])
async def test_what_is_no_http_server(reply: bytes) -> None:
    async with await open_listener("127.0.0.1", 0) as listener, anyio.create_task_group() as tasks:

        async def hang_up(stream: anyio.abc.SocketStream) -> None:
            async with stream:
                await stream.receive()
                await stream.send(reply) if reply else None

        tasks.start_soon(listener.serve, hang_up)
        with pytest.raises(NoAuthorization, match="Error"):
            await servers(f"127.0.0.1:{local_port(listener)}")(ASKED)
        tasks.cancel_scope.cancel()


# HTTPS


def context(files: TLSFiles) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(files.server.certificate_file, files.server.private_key_file)
    return made


async def test_https_trusts_the_root_ca_file(tls_files: TLSFiles) -> None:
    backend = Backend()
    async with serving(backend, context(tls_files)) as address:
        url = f"https://{address}/auth"
        assert (await servers(url, tls_root_ca_file=tls_files.ca_file)(ASKED)).identity == "me"
        for options in ({}, {"tls_root_ca_file": tls_files.other_ca_file}):
            with pytest.raises(NoAuthorization, match=r"cannot connect: .*CERTIFICATE_VERIFY_FAILED"):
                await servers(url, **options)(ASKED)
        with pytest.raises(NoAuthorization):
            await servers(f"http://{address}/auth")(ASKED)
    assert len(backend.requests) == 1


async def test_a_server_that_wants_a_certificate(tls_files: TLSFiles) -> None:
    wants_certificate = context(tls_files)
    wants_certificate.load_verify_locations(tls_files.ca_file)
    wants_certificate.verify_mode = ssl.CERT_REQUIRED
    async with serving(Backend(), wants_certificate) as address:
        with pytest.raises(NoAuthorization):
            await servers(f"https://{address}/auth", tls_root_ca_file=tls_files.ca_file)(ASKED)


async def test_a_refusal_that_names_an_https_port_is_followed(tls_files: TLSFiles) -> None:
    backend = Backend()
    async with serving(backend, context(tls_files)) as secure:
        port = urlsplit(f"//{secure}").port
        plain = Backend(json.dumps({"message": "TLS_REQUIRED", "https_port": port}).encode(), 403)
        async with serving(plain) as address:
            source = servers(address, tls_root_ca_file=tls_files.ca_file)
            assert (await source(ASKED)).identity == "me"
    assert backend.requests[0].target.query == plain.requests[0].target.query
    assert backend.requests[0].target.path == "/auth"


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"https_port":"5"}', b'{"https_port":0}', b'{"https_port":70000}']
)
async def test_other_refusals_are_not(body: bytes) -> None:
    async with serving(Backend(body, 403)) as address:
        with pytest.raises(NoAuthorization, match="it answered with 403"):
            await servers(address)(ASKED)


# As a whole


async def test_the_secret_shows_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    backend = Backend()
    secret = "hunter2"
    async with (
        serving(backend) as address,
        closed_port() as closed,
        embedded.nsqd(options=NsqdOptions(auth_http_addresses=[address, closed])) as nsqd,
    ):
        for body in (backend.body, secret.encode(), b'{"ttl":"hunter2"}'):
            backend.body = body
            async with raw_client(nsqd.tcp_address) as client:
                await client.send(b"AUTH\n" + sized(secret.encode()))
                await client.frame()
    assert parse_qs(backend.requests[0].target.query)["secret"] == [secret]
    assert "AUTH of a client at 127.0.0.1 failed: failed to auth against" in caplog.text
    assert secret not in caplog.text


async def test_the_end_of_nsqd_cancels_the_request() -> None:
    asked = anyio.Event()

    async def never(_: Request) -> Response:
        asked.set()
        await anyio.sleep_forever()
        raise AssertionError

    async with serving(never) as address:
        async with embedded.nsqd(options=NsqdOptions(auth_http_addresses=[address])) as nsqd:
            client = raw_client(nsqd.tcp_address)
            opened = await client.__aenter__()
            await opened.send(b"AUTH\n" + sized(b"secret"))
            await until(asked.is_set)
        assert await opened.closed()
        await client.__aexit__(None, None, None)
