"""AUTH of the embedded nsqd with a function; `test_embedded_upgrades_like_real` compares the texts."""

import dataclasses
import json
import logging
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint

from nsq_anyio import embedded
from nsq_anyio.embedded import Authorization, AuthRequest, AuthState, NsqdOptions
from nsq_anyio.embedded.nsqd.auth import Access, AuthorizationExpired
from nsq_anyio.errors import InvalidOption
from nsq_anyio.protocol.compression import Snappy
from tests.embedded.raw_client import LIMIT, RawClient, dpub, identify, mpub, pub, raw_client, sized, until

pytestmark = pytest.mark.anyio

SECRET = "hunter2&co"
AUTH = b"AUTH\n" + sized(SECRET.encode())
ALL = AuthState((Authorization(),), identity="me", identity_url="http://me.example")
FAILED = b"E_AUTH_FAILED AUTH failed"

Answer = AuthState | Exception
Answering = Callable[[AuthRequest], AuthState | Awaitable[AuthState]]


class Server:
    """What stands in for an auth server: answers what it is told, once it is allowed to."""

    def __init__(self, answer: Answer = ALL) -> None:
        self.answer = answer
        self.asked: list[AuthRequest] = []
        self.may_answer = anyio.Event()
        self.cancelled = 0

    async def __call__(self, request: AuthRequest) -> AuthState:
        self.asked.append(request)
        try:
            await self.may_answer.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled += 1
            raise
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def release(self) -> None:
        self.may_answer.set()


def options(auth: Answering, timeout: float = 5.0) -> NsqdOptions:
    return NsqdOptions(auth=auth, http_client_request_timeout=timeout)


async def authenticate(client: RawClient) -> dict[str, object]:
    reply: dict[str, object] = json.loads(await client.ask(AUTH))
    return reply


async def test_a_plain_function_answers() -> None:
    asked: list[AuthRequest] = []

    def auth(request: AuthRequest) -> AuthState:
        asked.append(request)
        return ALL

    async with embedded.nsqd(options=options(auth)) as nsqd, raw_client(nsqd.tcp_address) as client:
        assert (await client.negotiate())["auth_required"]
        assert await authenticate(client) == {
            "identity": "me",
            "identity_url": "http://me.example",
            "permission_count": 1,
        }
        await client.publish("t", b"x")
        await client.subscribe("t", "c", rdy=1)
        assert (await client.message()).body == b"x"
    assert asked == [AuthRequest(SECRET, "127.0.0.1", tls=False, common_name="")]


async def test_commands_behind_auth_wait_and_other_clients_do_not() -> None:
    server = Server()
    async with (
        embedded.nsqd(options=options(server)) as nsqd,
        raw_client(nsqd.tcp_address) as first,
        raw_client(nsqd.tcp_address) as second,
    ):
        await first.send(AUTH + pub("t", b"first") + b"SUB t c\nRDY 1\n")
        assert await first.silent(0.05)
        assert "t" not in nsqd.topics
        await second.send(b"SUB t c\n")
        assert await second.error() == b"E_AUTH_FIRST AUTH required before SUB"
        assert await first.silent(0.05)
        server.release()
        assert json.loads(await first.response())["identity"] == "me"
        assert await first.response() == await first.response() == b"OK"
        assert (await first.message()).body == b"first"


async def test_silence_during_auth_is_not_held_against_the_client() -> None:
    server = Server()
    beating = NsqdOptions(auth=server, client_timeout=0.2)
    async with embedded.nsqd(options=beating) as nsqd, raw_client(nsqd.tcp_address) as client:
        await client.send(AUTH)
        for _ in range(5):  # half a second, in which it says nothing
            assert await client.response() == b"_heartbeat_"
        server.release()
        assert json.loads(await client.response())["identity"] == "me"
        # But afterwards it is.
        with anyio.fail_after(LIMIT), pytest.raises(anyio.EndOfStream):
            while True:
                await client.frame()


async def test_a_client_that_vanishes_during_auth() -> None:
    server = Server()
    async with embedded.nsqd(options=options(server)) as nsqd:
        async with raw_client(nsqd.tcp_address) as client:
            await client.send(AUTH + b"SUB t c\n")
            await until(lambda: bool(server.asked))
        server.release()
        async with raw_client(nsqd.tcp_address) as client:
            assert (await authenticate(client))["identity"] == "me"


async def test_the_end_of_the_server_cancels_the_question() -> None:
    server = Server()
    async with embedded.nsqd(options=options(server)) as nsqd:
        client = RawClient(await anyio.connect_tcp(*_host_and_port(nsqd.tcp_address)))
        await client.send(b"  V2" + AUTH)
        await until(lambda: bool(server.asked))
    assert server.cancelled == 1
    assert await client.closed()
    await client.stream.aclose()


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)


async def test_an_answer_that_takes_too_long(caplog: pytest.LogCaptureFixture) -> None:
    async with (
        embedded.nsqd(options=options(Server(), timeout=0.1)) as nsqd,
        raw_client(nsqd.tcp_address) as client,
    ):
        await client.send(AUTH + b"SUB t c\n")
        assert await client.error() == FAILED
        assert await client.closed()
    assert "TimeoutError" in caplog.text


@pytest.mark.parametrize(
    "answer", [PermissionError("no such user"), KeyError(SECRET), ValueError(f"bad secret {SECRET!r}")]
)
async def test_an_exception_refuses_and_the_log_says_why(
    answer: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(answer)
    server.release()
    async with (
        embedded.nsqd(options=options(server)) as nsqd,
        raw_client(nsqd.tcp_address) as client,
    ):
        await client.send(AUTH + b"SUB t c\n")
        assert await client.error() == FAILED
        assert await client.closed()
    assert f"AUTH of a client at 127.0.0.1 failed: {type(answer).__name__}" in caplog.text
    assert SECRET not in caplog.text


async def test_what_is_no_answer_refuses(caplog: pytest.LogCaptureFixture) -> None:
    def auth(_: AuthRequest) -> AuthState:
        answer: AuthState = None  # type: ignore[assignment]  # what untyped callers do
        return answer

    async with embedded.nsqd(options=options(auth)) as nsqd, raw_client(nsqd.tcp_address) as client:
        await client.send(AUTH)
        assert await client.error() == FAILED
    assert "NoneType instead of an AuthState" in caplog.text


async def test_the_secret_shows_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    server = Server()
    server.release()
    async with embedded.nsqd(options=options(server)) as nsqd:
        async with raw_client(nsqd.tcp_address) as client:
            await authenticate(client)
        server.answer = ValueError(SECRET)
        async with raw_client(nsqd.tcp_address) as client:
            await client.send(AUTH)
            assert await client.error() == FAILED
    assert SECRET not in caplog.text
    assert SECRET not in repr(server.asked)


async def test_secrets_may_be_any_bytes() -> None:
    server = Server()
    server.release()
    secret = b"\xff\x00\n\xc3\xa4 "
    async with embedded.nsqd(options=options(server)) as nsqd, raw_client(nsqd.tcp_address) as client:
        assert json.loads(await client.ask(b"AUTH\n" + sized(secret)))["identity"] == "me"
    assert server.asked[0].secret.encode("utf-8", "surrogateescape") == secret


async def test_it_is_asked_again_when_the_answer_has_expired() -> None:
    server = Server(dataclasses.replace(ALL, ttl=0.1))
    server.release()
    async with embedded.nsqd(options=options(server)) as nsqd, raw_client(nsqd.tcp_address) as client:
        await authenticate(client)
        await client.publish("t", b"x")
        assert len(server.asked) == 1
        await anyio.sleep(0.15)
        server.answer = AuthState((Authorization("^t$"),))
        # What came in one piece is executed in order; the second question is for the first of it.
        await client.send(
            mpub("t", b"1", b"2") + pub("t", b"3") + dpub("t", 0, b"4") + b"SUB t c\nRDY 9\nNOP\n"
        )
        for _ in range(4):
            assert await client.response() == b"OK"
        assert [message.body for message in await client.messages(5)] == [b"x", b"1", b"2", b"3", b"4"]
        assert server.asked == [server.asked[0]] * 2
        await client.send(pub("none", b"x"))
        assert await client.error() == b'E_UNAUTHORIZED AUTH failed for PUB on "none" ""'


async def test_what_expires_while_it_is_asked_for_counts_once() -> None:
    server = Server(dataclasses.replace(ALL, ttl=0.001))
    server.release()
    async with embedded.nsqd(options=options(server)) as nsqd, raw_client(nsqd.tcp_address) as client:
        await authenticate(client)
        for count in range(1, 4):
            await anyio.sleep(0.01)
            await client.publish("t", b"x")
            assert len(server.asked) == 1 + count


async def test_commands_wait_for_the_renewal() -> None:
    server = Server(dataclasses.replace(ALL, ttl=0.001))
    server.release()
    async with embedded.nsqd(options=options(server)) as nsqd, raw_client(nsqd.tcp_address) as client:
        await authenticate(client)
        await anyio.sleep(0.01)
        server.may_answer = anyio.Event()
        # The second AUTH comes behind what has to wait, and must not be looked at before.
        await client.send(pub("t", b"x") + AUTH + b"BAD\n")
        assert await client.silent(0.05)
        await client.send(pub("t", b"y"))
        assert await client.silent(0.05)
        server.release()
        assert await client.response() == b"OK"
        assert await client.error() == b"E_INVALID AUTH already set"
        assert await client.closed()
        assert nsqd.topics["t"].message_count == 1


async def test_a_change_of_the_stream_waits_for_the_renewal() -> None:
    server = Server(dataclasses.replace(ALL, ttl=0.001))
    server.release()
    codec = Snappy()
    upgrade = identify('{"feature_negotiation":true,"snappy":true}')
    async with embedded.nsqd(options=options(server)) as nsqd, raw_client(nsqd.tcp_address) as client:
        await authenticate(client)
        await anyio.sleep(0.01)
        await client.send(pub("t", b"x") + upgrade + codec.compress(pub("t", b"y")))
        assert await client.response() == b"OK"
        assert json.loads(await client.response())["snappy"]
        client.compress("snappy")
        assert await client.response() == await client.response() == b"OK"


async def test_a_renewal_holds_for_the_command_that_needed_it() -> None:
    async def source(_: AuthRequest) -> AuthState:
        await checkpoint()
        return dataclasses.replace(ALL, ttl=0.001)

    access = Access(source, lambda secret: AuthRequest(secret, "", tls=False, common_name=""))
    await access.authenticate(b"secret")
    time.sleep(0.005)  # noqa: ASYNC251 - a busy event loop
    with pytest.raises(AuthorizationExpired):
        access.check("PUB", "t")
    await access.renew()
    time.sleep(0.005)  # noqa: ASYNC251
    access.check("PUB", "t")
    with pytest.raises(AuthorizationExpired):
        access.check("PUB", "t")


async def test_a_failed_renewal_ends_the_connection() -> None:
    server = Server(dataclasses.replace(ALL, ttl=0.001))
    server.release()
    async with embedded.nsqd(options=options(server)) as nsqd, raw_client(nsqd.tcp_address) as client:
        await authenticate(client)
        await anyio.sleep(0.01)
        server.answer = ConnectionError("down")
        await client.send(pub("t", b"x") + pub("t", b"y"))
        assert await client.error() == FAILED
        assert await client.closed()
        assert "t" not in nsqd.topics


async def test_an_mpub_without_permission_is_refused_before_its_body() -> None:
    server = Server(AuthState((Authorization("^mine$"),)))
    server.release()
    async with embedded.nsqd(options=options(server)) as nsqd, raw_client(nsqd.tcp_address) as client:
        await authenticate(client)
        await client.send(b"MPUB mine\n")
        await until(lambda: "mine" in nsqd.topics)
        await client.send(mpub("mine", b"x")[len(b"MPUB mine\n") :] + b"MPUB yours\n")
        assert await client.response() == b"OK"
        assert await client.error() == b'E_UNAUTHORIZED AUTH failed for MPUB on "yours" ""'
        assert "yours" not in nsqd.topics


# Permissions


@pytest.mark.parametrize(
    ("authorization", "topic", "channel", "allowed"),
    [
        (Authorization(), "t", "c", True),
        (Authorization(), "t", "", True),
        (Authorization("b", ("b",)), "abc", "abc", True),  # anywhere, as in nsqd
        (Authorization("^b", ("b",)), "abc", "abc", False),
        (Authorization("b", ("^b$", "c$")), "abc", "abc", True),
        (Authorization("b", ("^b$",)), "abc", "abc", False),
        (Authorization("b", ()), "abc", "abc", False),
        (Authorization("b", ("c",)), "abc", "", False),  # a publish is on the channel ""
        (Authorization("b", ("^$",)), "abc", "", True),
        (Authorization(permissions=("subscribe",)), "t", "", False),
        (Authorization(permissions=("subscribe",)), "t", "c", True),
        (Authorization(permissions=("publish",)), "t", "c", False),
        (Authorization(permissions=("publish",)), "t", "", True),
        (Authorization(permissions=()), "t", "", False),
    ],
)
def test_what_an_authorization_allows(
    authorization: Authorization, topic: str, channel: str, allowed: bool
) -> None:
    assert authorization.allows(topic, channel) is allowed
    assert AuthState((Authorization("never$^x"), authorization)).allows(topic, channel) is allowed


@pytest.mark.parametrize(
    ("kind", "values", "text"),
    [
        (Authorization, {"topic": "("}, r"'\(' is not a regular expression"),
        (Authorization, {"topic": b"t"}, "expression b't' is not valid: use a string"),
        (Authorization, {"topic": "a{99999999999999999999}"}, "is not a regular expression"),
        (Authorization, {"topic": "(?=a)"}, "is not a regular expression"),  # nor is it for Go
        (Authorization, {"channels": ("*",)}, r"'\*' is not a regular expression"),
        (Authorization, {"channels": "abc"}, "channels='abc' is not valid: use a sequence"),
        (Authorization, {"channels": (None,)}, "expression None is not valid: use a string"),
        (Authorization, {"permissions": "publish"}, "permissions='publish' is not valid: use a sequence"),
        (Authorization, {"permissions": ("read",)}, "'read' is not valid: use subscribe or publish"),
        (AuthState, {"authorizations": (), "ttl": 0}, "ttl=0 is not valid"),
        (AuthState, {"authorizations": (), "ttl": -1}, "ttl=-1 is not valid"),
        (AuthState, {"authorizations": (), "identity": None}, "identity=None is not valid: use a string"),
        (AuthState, {"authorizations": ("all",)}, "use a sequence of Authorization"),
    ],
)
def test_bad_authorizations_are_refused(
    kind: type[Authorization | AuthState], values: dict[str, Any], text: str
) -> None:
    with pytest.raises(InvalidOption, match=text):
        kind(**values)


def test_no_name_makes_an_expression_of_an_auth_server_take_long() -> None:
    authorization = Authorization(r"^([a-z]+\.?)+$", ("(x+x+)+y",))
    started = time.process_time()
    assert not authorization.allows("a" * 60 + "-", "x" * 60)
    assert authorization.allows("a" * 60, "xxy")
    assert time.process_time() - started < 0.5


@pytest.mark.parametrize(
    ("topic", "name"), [("^[[:alpha:]]+$", "clicks"), (r"s\z", "clicks"), (r"^\pL", "c")]
)
def test_expressions_are_those_of_go(topic: str, name: str) -> None:
    assert Authorization(topic).allows(name, "c")


async def test_an_auth_server_is_refused_where_its_expressions_cannot_be_understood(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(InvalidOption, match="google-re2"):
        async with embedded.nsqd(options=NsqdOptions(auth_http_addresses=["127.0.0.1:1"])):
            pass
