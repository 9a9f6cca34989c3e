"""The embedded nsqd negotiates TLS, compression and AUTH, and refuses, in the words of the real one."""

import contextlib
import json
import ssl
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
import trustme

from nsq_anyio import embedded
from tests.auth_server import Account, AuthRequest, AuthServer, Grant, auth_server
from tests.embedded.raw_client import RawClient, dpub, identify, mpub, pub, raw_client, sized
from tests.real_servers import real_nsqd
from tests.tls_files import TLSFiles

pytestmark = pytest.mark.anyio

Frames = list[tuple[int, bytes]]
Flags = dict[str, str | list[str]]

LAYERS: list[dict[str, Any]] = [
    {},
    {"snappy": True},
    {"deflate": True},
    {"deflate": True, "deflate_level": 9},
    {"tls_v1": True},
    {"tls_v1": True, "snappy": True},
    {"tls_v1": True, "deflate": True, "deflate_level": -1},
]


class Pair:
    """The same nsqd twice, as the real one and embedded."""

    def __init__(self, real: str, real_http: str, own: str, own_http: str) -> None:
        self.real = real
        self.own = own
        self.http = {real: real_http, own: own_http}

    def __iter__(self) -> Generator[str]:
        yield self.real
        yield self.own


@asynccontextmanager
async def both(flags: Flags, **options: Any) -> AsyncGenerator[Pair]:
    """With ``flags``, and embedded with ``options`` as well."""
    arguments = [
        f"--{name.replace('_', '-')}={value}"
        for name, values in flags.items()
        for value in ([values] if isinstance(values, str) else values)
    ]
    async with (
        real_nsqd(flags=arguments) as real,
        embedded.nsqd(options=embedded.NsqdOptions(**options)) as own,
    ):
        yield Pair(real.tcp_address, real.http_url, own.tcp_address, own.http_url)


def with_tls(files: TLSFiles) -> dict[str, Any]:
    return {"tls_cert": files.server.certificate_file, "tls_key": files.server.private_key_file}


async def transcript(address: str, data: bytes, fields: dict[str, Any] | None = None) -> Frames:
    """All frames that the server sends to a client that negotiates ``fields``, then says ``data``."""
    frames: Frames = []
    async with raw_client(address) as client:
        if fields is not None:
            frames.append((0, json.dumps(await client.negotiate(fields)).encode()))
        if data:
            await client.send(data)
        # The real nsqd closes at a bad command; what TLS sends at its end would then reset the connection.
        if not data.endswith(b"BAD\n"):
            # Trio and uvloop refuse it when the server has closed already.
            with contextlib.suppress(OSError, RuntimeError, anyio.BrokenResourceError):
                await client.stream.send_eof()
        await read_all(client, frames)
    return frames


async def read_all(client: RawClient, frames: Frames) -> None:
    try:
        while True:
            frames.append(await client.frame())
    except (anyio.EndOfStream, anyio.BrokenResourceError):
        return


# Layers


@pytest.mark.parametrize(
    "offered",
    [
        {},
        {"snappy": "false"},
        {"deflate": "false"},
        {"max_deflate_level": "4"},
    ],
)
async def test_layers_are_negotiated_alike(tls_files: TLSFiles, offered: Flags) -> None:
    typed: dict[str, Any] = {
        name: int(value) if isinstance(value, str) and value.isdigit() else False
        for name, value in offered.items()
    }
    script = pub("t", b"x") + mpub("t", b"y", b"z") + dpub("t", 1, b"late") + b"SUB s c\nRDY 5\nCLS\nBAD\n"
    async with both({**with_tls(tls_files), **offered}, **with_tls(tls_files), **typed) as pair:
        for fields in LAYERS:
            expected = await transcript(pair.real, script, fields)
            assert await transcript(pair.own, script, fields) == expected, fields
            assert expected[-1] == (1, b"E_INVALID invalid command BAD")


@pytest.mark.parametrize("offers_tls", [True, False])
async def test_what_is_not_negotiated_is_answered_alike(tls_files: TLSFiles, offers_tls: bool) -> None:
    scripts = [
        identify('{"feature_negotiation":true,"snappy":true,"deflate":true}'),
        identify('{"feature_negotiation":true,"snappy":true,"deflate":true,"tls_v1":true}'),
        identify('{"snappy":true,"deflate":true,"tls_v1":true}') + b"NOP\nBAD\n",
        identify('{"feature_negotiation":true,"deflate_level":9}') + b"BAD\n",
        identify('{"feature_negotiation":true,"deflate_level":1}') + b"BAD\n",
        identify('{"feature_negotiation":true}') + b"AUTH\n" + sized(b"secret"),
    ]
    options = with_tls(tls_files) if offers_tls else {}
    async with both(options, **options) as pair:
        for script in scripts:
            assert await transcript(pair.own, script) == await transcript(pair.real, script), script


VARIABLE = ("remote_address", "connect_ts")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
async def test_the_statistics_of_layers_are_alike(tls_files: TLSFiles, version: ssl.TLSVersion) -> None:
    context = ssl.create_default_context(cafile=tls_files.ca_file)
    context.minimum_version = context.maximum_version = version
    # The two agree on a cipher in ways of their own, so there is but one of TLS 1.2 to agree on. nsqd knows
    # the name of none of TLS 1.3.
    context.set_ciphers("ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES128-GCM-SHA256")
    async with (
        both(with_tls(tls_files), **with_tls(tls_files)) as pair,
        httpx.AsyncClient(trust_env=False) as http,
    ):
        for fields in LAYERS:
            stats: list[dict[str, Any]] = []
            for address in pair:
                async with raw_client(address) as client:
                    await client.negotiate(fields, context)
                    await client.publish("t", b"x")
                    reply = (await http.get(f"{pair.http[address]}/stats?format=json&topic=t")).json()
                    (producer,) = reply["producers"]
                    for name in VARIABLE:
                        del producer[name]
                    if version is ssl.TLSVersion.TLSv1_3 and fields.get("tls_v1"):
                        assert producer.pop("tls_cipher_suite").startswith("Unknown 48")
                    stats.append(producer)
                await gone(http, pair.http[address])
            assert stats[1] == stats[0], fields


async def gone(http: httpx.AsyncClient, url: str) -> None:
    """Wait until the server has noticed that its clients left."""
    with anyio.fail_after(5):
        while (await http.get(f"{url}/stats?format=json")).json()["producers"]:  # noqa: ASYNC110 - no event
            await anyio.sleep(0.01)


# TLS required

BEFORE_TLS = [
    b"NOP\n",
    b"nop\n",
    b"\n",
    b"HELLO world\n",
    b"\xff \n",
    pub("t", b"x"),
    b"PUB\n",
    b"SUB t$\n",
    b"RDY 1\n",
    b"FIN x\n",
    b"CLS\n",
    b"AUTH\n" + sized(b"secret"),
    identify("{}") + b"NOP\n",
    identify('{"feature_negotiation":true,"tls_v1":false,"heartbeat_interval":999}') + b"NOP\n",
    identify('{"feature_negotiation":true,"snappy":true,"deflate":true}') + b"NOP\n",
]


@pytest.mark.parametrize("required", ["true", "tcp-https"])
async def test_tls_is_required_alike(tls_files: TLSFiles, required: str) -> None:
    typed = True if required == "true" else required
    async with (
        both(
            {**with_tls(tls_files), "tls_required": required}, **with_tls(tls_files), tls_required=typed
        ) as pair,
        httpx.AsyncClient(trust_env=False) as http,
    ):
        for script in BEFORE_TLS:
            assert await transcript(pair.own, script) == await transcript(pair.real, script), script
        for script in (b"", pub("t", b"x") + b"SUB s c\nRDY 1\nBAD\n"):
            expected = await transcript(pair.real, script, {"tls_v1": True})
            assert await transcript(pair.own, script, {"tls_v1": True}) == expected
        replies = [await http.get(f"{pair.http[address]}/ping") for address in pair]
        assert replies[0].status_code == replies[1].status_code == (403 if required == "true" else 200)
        for name in ("content-type", "x-nsq-content-type"):
            assert replies[0].headers.get(name) == replies[1].headers.get(name)
        if required == "true":
            texts = [reply.text.replace(str(reply.json()["https_port"]), "PORT") for reply in replies]
            assert texts[0] == texts[1]
        else:
            for option in ("tls_required", "tls_min_version", "snappy", "tls_cert", "tls_client_auth_policy"):
                configs = [(await http.get(f"{pair.http[address]}/config/{option}")).text for address in pair]
                assert configs[0] == configs[1], option


async def test_a_policy_for_client_certificates_is_applied_alike(tls_files: TLSFiles) -> None:
    flags = {
        **with_tls(tls_files),
        "tls_root_ca_file": tls_files.ca_file,
        "tls_client_auth_policy": "require-verify",
    }
    async with both({**flags}, **flags) as pair:
        for pairing, accepted in ((None, False), (tls_files.stranger, False), (tls_files.client, True)):
            for address in pair:
                context = ssl.create_default_context(cafile=tls_files.ca_file)
                # Here a client learns of a refusal within the handshake.
                context.maximum_version = ssl.TLSVersion.TLSv1_2
                if pairing is not None:
                    context.load_cert_chain(pairing.certificate_file, pairing.private_key_file)
                async with raw_client(address) as client:
                    if accepted:
                        assert (await client.negotiate({"tls_v1": True}, context))["tls_v1"]
                        await client.publish("t", b"x")
                    else:
                        with pytest.raises((ssl.SSLError, anyio.BrokenResourceError, anyio.EndOfStream)):
                            await client.negotiate({"tls_v1": True}, context)
                async with raw_client(address) as plain:
                    await plain.send(b"NOP\n")
                    assert await plain.error() == b"E_INVALID cannot NOP in current state (TLS required)"


# AUTH

ACCOUNTS = {
    "all": Account("me", identity_url="http://me.example"),
    "consumer": Account("c", (Grant("^t$", ("^c$", "x"), ("subscribe",)),)),
    "producer": Account("p", (Grant("t", (".*",), ("publish",)),)),
    "publishes on no channel": Account("n", (Grant("t", ("c",), ("publish",)),)),
    "nothing": Account("n", ()),
    "bad ttl": Account("b", ttl=0),
    "bad expression": Account("b", (Grant("("),)),
    "a b&c=d+e%20/\u00e4": Account("<odd>"),
}


def auth(secret: str) -> bytes:
    return b"AUTH\n" + sized(secret.encode())


AFTER_AUTH = [
    b"",
    b"SUB t c\n",
    b"SUB t d\n",
    b"SUB t axe\n",
    b"SUB tt c\n",
    b"SUB t$ c\n",
    pub("t", b"x"),
    pub("att", b"x"),
    pub("none", b"x"),
    mpub("t", b"x"),
    mpub("none", b"x"),
    b"MPUB none\n",
    b"MPUB none\n\x00\x00\x00\x00",
    dpub("t", 0, b"x"),
    dpub("none", 0, b"x"),
    b"DPUB none x\n",
    auth("all"),
    b"NOP\nBAD\n",
    identify("{}"),
    identify('{"heartbeat_interval":-1}') + b"SUB t c\n",
]
BEFORE_AUTH = [
    *AFTER_AUTH,
    b"AUTH\n",
    b"AUTH\n" + sized(b""),
    b"AUTH x\n",
    auth("unknown"),
    b"SUB t c\n" + auth("all"),
]


@contextlib.contextmanager
def auth_servers() -> Generator[tuple[AuthServer, AuthServer]]:
    with auth_server(ACCOUNTS) as first, auth_server(ACCOUNTS) as second:
        yield first, second


async def test_auth_is_answered_alike() -> None:
    with auth_servers() as (of_real, of_own):
        async with both(
            {"auth_http_address": [of_real.address]}, auth_http_addresses=[of_own.address]
        ) as pair:
            scripts = [*BEFORE_AUTH, *(auth(secret) + rest for secret in ACCOUNTS for rest in AFTER_AUTH)]
            for script in scripts:
                expected = await transcript(pair.real, script)
                assert parsed(await transcript(pair.own, script)) == parsed(expected), script
            fields = {"client_id": "x"}
            expected = await transcript(pair.real, auth("all"), fields)
            assert await transcript(pair.own, auth("all"), fields) == expected
        assert of_own.requests == of_real.requests
        assert of_own.requests[-1] == AuthRequest("all", "127.0.0.1", tls=False, common_name="")


def parsed(frames: Frames) -> list[Any]:
    """With JSON parsed, in which Go writes ``<`` in its own way."""
    return [json.loads(data) if data.startswith(b"{") else (kind, data) for kind, data in frames]


@pytest.fixture(scope="module")
def named_client(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A certificate with a common name, and its authority."""
    directory: Path = tmp_path_factory.mktemp("named")
    authority = trustme.CA()
    leaf = authority.issue_cert("client.example", common_name="the client")
    authority.cert_pem.write_to_path(directory / "ca.pem")
    leaf.private_key_and_cert_chain_pem.write_to_path(directory / "client.pem")
    return {"ca": str(directory / "ca.pem"), "client": str(directory / "client.pem")}


async def test_the_auth_server_learns_of_tls_alike(tls_files: TLSFiles, named_client: dict[str, str]) -> None:
    flags = {
        **with_tls(tls_files),
        "tls_root_ca_file": named_client["ca"],
        "tls_client_auth_policy": "require-verify",
    }
    context = ssl.create_default_context(cafile=tls_files.ca_file)
    context.load_cert_chain(named_client["client"])
    with auth_servers() as (of_real, of_own):
        async with both(
            {**flags, "auth_http_address": [of_real.address]}, **flags, auth_http_addresses=[of_own.address]
        ) as pair:
            for address in pair:
                async with raw_client(address) as client:
                    await client.negotiate({"tls_v1": True, "snappy": True}, context)
                    assert b'"identity":"me"' in await client.ask(auth("all"))
        expected = AuthRequest("all", "127.0.0.1", tls=True, common_name="the client")
        assert of_own.requests == of_real.requests == [expected]


async def test_an_expired_answer_is_asked_for_again_alike() -> None:
    with auth_servers() as (of_real, of_own):
        for server in (of_real, of_own):
            server.accounts["brief"] = Account("b", ttl=1)
        async with (
            both({"auth_http_address": [of_real.address]}, auth_http_addresses=[of_own.address]) as pair,
            raw_client(pair.real) as real,
            raw_client(pair.own) as own,
        ):
            for client, server in ((real, of_real), (own, of_own)):
                await client.ask(auth("brief"))
                await client.publish("t", b"x", b"y")
                assert len(server.requests) == 1
                server.accounts["brief"] = Account("b", (Grant("t"),), ttl=1)
            await anyio.sleep(1.1)  # the shortest time to live that there is
            for client, server in ((real, of_real), (own, of_own)):
                await client.send(pub("t", b"x") + pub("t", b"y") + pub("none", b"x"))
                assert await client.response() == await client.response() == b"OK"
                assert len(server.requests) == 2
                assert await client.error() == b'E_UNAUTHORIZED AUTH failed for PUB on "none" ""'


async def test_who_lost_all_permissions_is_refused_alike() -> None:
    with auth_servers() as (of_real, of_own):
        for server in (of_real, of_own):
            server.accounts["brief"] = Account("b", ttl=1)
        async with (
            both({"auth_http_address": [of_real.address]}, auth_http_addresses=[of_own.address]) as pair,
            raw_client(pair.real) as first,
            raw_client(pair.own) as second,
            raw_client(pair.real) as third,
            raw_client(pair.own) as fourth,
        ):
            for client in (first, second, third, fourth):
                await client.ask(auth("brief"))
            await anyio.sleep(1.1)
            for server in (of_real, of_own):
                server.accounts["brief"] = Account("b", ())
            for client in (first, second):
                await client.send(b"SUB t c\n")
                assert await client.error() == b'E_UNAUTHORIZED AUTH failed for SUB on "t" "c"'
            for server in (of_real, of_own):
                server.broken = True
            for client in (third, fourth):
                await client.send(b"SUB t c\n")
                assert await client.error() == b"E_AUTH_FAILED AUTH failed"


async def test_statistics_show_who_it_is_alike() -> None:
    with auth_servers() as (of_real, of_own):
        async with (
            both({"auth_http_address": [of_real.address]}, auth_http_addresses=[of_own.address]) as pair,
            httpx.AsyncClient(trust_env=False) as http,
        ):
            for secret in ("all", "consumer"):
                stats: list[dict[str, Any]] = []
                for address in pair:
                    async with raw_client(address) as client:
                        await client.ask(auth(secret))
                        await client.subscribe("t", "c")
                        reply = (await http.get(f"{pair.http[address]}/stats?format=json&topic=t")).json()
                        (consumer,) = reply["topics"][0]["channels"][0]["clients"]
                        for name in VARIABLE:
                            del consumer[name]
                        stats.append(consumer)
                assert stats[1] == stats[0]
                assert stats[0]["authed"]
                # The first must be gone before the second is looked for.
                for address in pair:
                    await left(http, pair.http[address])


async def left(http: httpx.AsyncClient, url: str) -> None:
    with anyio.fail_after(5):
        while True:
            (topic,) = (await http.get(f"{url}/stats?format=json&topic=t")).json()["topics"]
            if not topic["channels"][0]["clients"]:
                return
            await anyio.sleep(0.01)
