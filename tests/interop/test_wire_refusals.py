"""What nsqd or the client refuses is told at once, by a typed error, and no secret is shown on the way."""

from __future__ import annotations

import logging
import ssl
from collections.abc import AsyncGenerator, Generator
from dataclasses import dataclass
from typing import Any

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.events import Connected, ConnectFailed, PublishResent
from nsq_anyio.testing.faults import fault_proxy

from ..auth_server import Account, AuthServer, Grant, auth_server
from ..recording_proxy import recording_proxy
from ..tls_files import KeyPair, TLSFiles
from .cluster import Cluster, Kind, Server, run_cluster
from .observe import LIMIT, Events, until
from .wire import SECRET, USES, TLSVersion, Use, refusal, shown, tls_server, using

pytestmark = pytest.mark.anyio

NOBODY = "s3cret of nobody"
LIMITED = "s3cret for another topic"
POWERLESS = "s3cret without any permission"
ACCOUNTS = {
    SECRET: Account("all"),
    LIMITED: Account("limited", (Grant(topic="^another$"),)),
    POWERLESS: Account("powerless", ()),
}
SECRETS = (SECRET, NOBODY, LIMITED, POWERLESS)

Servers = dict[str, Server]


@pytest.fixture(scope="module")
def auth() -> Generator[AuthServer]:
    with auth_server(ACCOUNTS) as server:
        yield server


@pytest.fixture(scope="module")
async def servers(
    anyio_backend: object, nsqd_kind: Kind, tls_files: TLSFiles, auth: AuthServer
) -> AsyncGenerator[Servers]:
    """nsqds that differ in what they show and demand."""
    good = tls_server(tls_files.server, tls_files)
    # Their HTTP side stays without TLS, as it takes no part here.
    required = {"tls_required": "tcp-https"}
    wanted: dict[str, dict[str, Any]] = {
        "plain": {},
        "tls": {**good, **required},
        "tls 1.3": {**good, **required, "tls_min_version": "tls1.3"},
        "expired": tls_server(tls_files.expired, tls_files),
        "other host": tls_server(tls_files.other_host, tls_files),
        "mutual": {**good, **required, "tls_client_auth_policy": "require-verify"},
        "auth": {**good, "auth_http_addresses": [auth.address]},
    }
    async with run_cluster() as cluster:
        yield {name: await cluster.nsqd(nsqd_kind, **options) for name, options in wanted.items()}


@pytest.fixture(autouse=True)
def no_secret_is_logged(caplog: pytest.LogCaptureFixture) -> Generator[None]:
    with caplog.at_level(logging.DEBUG):
        yield
    for record in caplog.get_records("call"):
        text = logging.Formatter().format(record)
        assert not any(secret.strip() in text for secret in SECRETS), text


@dataclass(frozen=True)
class Trust:
    """How a client does TLS."""

    ca: str = "ca_file"
    client: str | None = None
    version: TLSVersion | None = None
    server_hostname: str | None = None

    def options(self, files: TLSFiles) -> nsq.TLSOptions:
        context = ssl.create_default_context(cafile=getattr(files, self.ca))
        if self.version is not None:
            context.maximum_version = ssl.TLSVersion[self.version.replace(".", "_")]
            context.minimum_version = context.maximum_version
        if self.client is not None:
            pair: KeyPair = getattr(files, self.client)
            context.load_cert_chain(pair.certificate_file, pair.private_key_file)
        return nsq.TLSOptions(ssl_context=context, server_hostname=self.server_hostname)


@dataclass(frozen=True)
class Case:
    """A client that is refused for good.

    :ivar kinds: of the errors that `consume` and `produce` raise
    """

    server: str
    text: str
    trust: Trust | None = Trust()
    secret: str | None = SECRET
    kinds: tuple[type[nsq.NSQError], type[nsq.NSQError]] = (nsq.TLSFailed, nsq.TLSFailed)

    def options(self, files: TLSFiles) -> nsq.ConnectionOptions:
        return nsq.ConnectionOptions(
            tls=self.trust.options(files) if self.trust else False, auth_secret=self.secret
        )


AT_ONCE = (nsq.PermanentRefusal, nsq.PermanentRefusal)
AT_THE_COMMAND = (nsq.PermanentRefusal, nsq.PublishRejected)

CASES = {
    "downgrade": Case("plain", "declines TLS"),
    "no TLS": Case("tls", "E_INVALID .*TLS required", trust=None, kinds=AT_THE_COMMAND),
    "another CA": Case("tls", "certificate", Trust(ca="other_ca_file")),
    "expired": Case("expired", "certificate.*expired"),
    "another host": Case("other host", "certificate.*127.0.0.1"),
    "another name": Case("tls", "certificate.*nsqd.example", Trust(server_hostname="nsqd.example")),
    "old TLS": Case("tls 1.3", "TLS failed", Trust(version="TLSv1.2")),
    "no client certificate, 1.2": Case(
        "mutual", "Perhaps it wants this client.s certificate", Trust(version="TLSv1.2")
    ),
    "no client certificate, 1.3": Case("mutual", "wants this client's certificate", Trust(version="TLSv1.3")),
    "strange client, 1.2": Case("mutual", "TLS failed", Trust(client="stranger", version="TLSv1.2")),
    "strange client, 1.3": Case("mutual", "TLS failed", Trust(client="stranger", version="TLSv1.3")),
    "wrong secret": Case("auth", "E_AUTH_FAILED", secret=NOBODY, kinds=AT_ONCE),
    "wrong secret in clear text": Case("auth", "E_AUTH_FAILED", None, NOBODY, AT_ONCE),
    "no permission": Case("auth", "E_UNAUTHORIZED", secret=LIMITED, kinds=AT_THE_COMMAND),
    "no permission at all": Case("auth", "E_UNAUTHORIZED", secret=POWERLESS, kinds=AT_ONCE),
    "no secret": Case("auth", "E_AUTH_FIRST.*auth_secret", secret=None, kinds=AT_ONCE),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", CASES)
async def test_a_refusal_for_good(servers: Servers, tls_files: TLSFiles, name: str, use: Use) -> None:
    case = CASES[name]
    async with recording_proxy(servers[case.server].tcp_address) as proxy:
        error = await refusal(use, proxy.address, case.options(tls_files))
        assert type(error) is case.kinds[USES.index(use)]
        assert_tells(error, case.text)
        assert len(proxy.sent) == 1  # it was not tried again
        clear_text = bytes(proxy.sent[0])
    assert (case.secret is not None and case.secret.encode() in clear_text) == (
        case.server == "auth" and case.trust is None
    )


def assert_tells(error: BaseException, pattern: str) -> None:
    """The error says so, and neither it nor what led to it shows a secret."""
    with pytest.raises(type(error), match=pattern):
        raise error
    for text in shown(error):
        assert not any(secret.strip() in text for secret in SECRETS), text


@pytest.mark.parametrize("use", USES)
async def test_an_nsqd_that_trusts_the_client(servers: Servers, tls_files: TLSFiles, use: Use) -> None:
    """The counterpart of the refusals: the same servers take who comes as they demand."""
    for server, trust in (
        ("tls", Trust(server_hostname="localhost")),
        ("tls 1.3", Trust()),
        ("other host", Trust(server_hostname="elsewhere.example")),
        ("mutual", Trust(client="client", version="TLSv1.2")),
        ("mutual", Trust(client="client", version="TLSv1.3")),
        ("auth", Trust()),
    ):
        options = nsq.ConnectionOptions(tls=trust.options(tls_files), auth_secret=SECRET)
        async with using(use, servers[server].tcp_address, options):
            pass


async def test_a_secret_travels_inside_of_tls_only(servers: Servers, tls_files: TLSFiles) -> None:
    async with recording_proxy(servers["auth"].tcp_address) as proxy:
        for tls in (Trust().options(tls_files), False):
            options = nsq.ConnectionOptions(tls=tls, auth_secret=SECRET)
            async with nsq.produce(proxy.address, connection=options) as producer:
                await producer.publish("t", b"body")
    encrypted, clear = map(bytes, proxy.sent)
    assert SECRET.encode() in clear
    assert SECRET.encode() not in encrypted
    assert b"AUTH" not in encrypted


async def test_both_compressions_are_refused_before_anything_is_sent() -> None:
    with pytest.raises(nsq.InvalidOption, match=r"snappy=True and deflate=True"):
        nsq.ConnectionOptions(snappy=True, deflate=True, auth_secret=SECRET)


@pytest.mark.parametrize("use", USES)
async def test_a_function_that_returns_no_secret(servers: Servers, use: Use) -> None:
    functions: list[Any] = [lambda: "", lambda: None, lambda: 1]
    for function in functions:
        error = await refusal(use, servers["auth"].tcp_address, nsq.ConnectionOptions(auth_secret=function))
        assert type(error) is nsq.InvalidOption
        assert_tells(error, "auth_secret returned")


@pytest.mark.parametrize("use", USES)
async def test_a_function_that_fails_is_asked_again(servers: Servers, use: Use) -> None:
    """Its error may hold the secret: only its kind is told."""
    attempts = 0

    async def secret() -> str:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise ValueError(f"the vault has {SECRET!r}, and closes")
        return SECRET

    events = Events()
    options = nsq.ConnectionOptions(auth_secret=secret)
    async with using(use, servers["auth"].tcp_address, options, events):
        pass
    (failed,) = events.of(ConnectFailed)
    assert type(failed.error) is nsq.HandshakeFailed
    assert "raised ValueError" in str(failed.error)
    assert SECRET not in repr(failed)
    assert attempts == 2


@pytest.mark.parametrize("use", USES)
async def test_an_auth_server_that_is_away(
    servers: Servers, tls_files: TLSFiles, auth: AuthServer, use: Use
) -> None:
    """At first that is no different from a wrong secret; after a success it must be the auth server."""
    options = nsq.ConnectionOptions(tls=Trust().options(tls_files), auth_secret=SECRET)
    events = Events()
    try:
        auth.broken = True
        assert_tells(await refusal(use, servers["auth"].tcp_address, options), "E_AUTH_FAILED")
        auth.broken = False
        async with (
            fault_proxy(servers["auth"].tcp_address) as proxy,
            using(use, proxy.address, options, events),
        ):
            auth.broken = True
            proxy.cut()
            (failed, *_) = await events.wait_for(ConnectFailed)
            assert type(failed.error) is nsq.HandshakeFailed
            assert_tells(failed.error, "E_AUTH_FAILED.*auth server")
            auth.broken = False
            await events.wait_for(Connected, 2)
    finally:
        auth.broken = False


async def test_an_authorization_that_expires_while_the_auth_server_is_away(
    cluster: Cluster, nsqd_kind: Kind
) -> None:
    """It is an outage, which another nsqd or time helps."""
    with (
        auth_server({SECRET: Account("brief", ttl=1)}) as away,
        auth_server({SECRET: Account("all")}) as there,
    ):
        one, two = [
            await cluster.nsqd(nsqd_kind, auth_http_addresses=[each.address]) for each in (away, there)
        ]
        options = nsq.ProducerOptions(connect_timeout=0.5, max_reconnect_delay=0.1)
        connection = nsq.ConnectionOptions(auth_secret=SECRET)
        events = Events()
        async with (
            nsq.produce(one.tcp_address, options=options, connection=connection) as alone,
            nsq.produce(
                [one.tcp_address, two.tcp_address], options=options, connection=connection, on_event=events
            ) as producer,
        ):
            await alone.publish("t", b"a")
            await until(lambda: len(producer.connections) == 2)
            away.broken = True
            await anyio.sleep(1.1)  # beyond the authorization
            for _ in range(2):
                await producer.publish("t", b"b")
            assert [event.nsqd for event in events.of(PublishResent)] == [one.tcp_address]
            with pytest.raises(nsq.NotSent, match="E_AUTH_FAILED"):
                await alone.publish("t", b"c")
            away.broken = False
            await until(lambda: alone.connections)
            await alone.publish("t", b"d")


async def test_what_is_refused_holds_nothing_else_up(cluster: Cluster, nsqd_kind: Kind) -> None:
    """A forbidden topic, and a message above nsqd's limit: nsqd closes the connection for both."""
    with auth_server({LIMITED: ACCOUNTS[LIMITED]}) as auth:
        nsqd = await cluster.nsqd(nsqd_kind, auth_http_addresses=[auth.address], max_msg_size=100)
        options = nsq.ProducerOptions(reconnect_delay=60, max_reconnect_delay=60)
        connection = nsq.ConnectionOptions(auth_secret=LIMITED)
        async with nsq.produce(nsqd.tcp_address, options=options, connection=connection) as producer:
            with anyio.fail_after(LIMIT):
                for _ in range(5):
                    for topic, body, code in (
                        ("forbidden", b"x", "E_UNAUTHORIZED"),
                        ("another", bytes(101), "E_BAD_MESSAGE"),
                    ):
                        with pytest.raises(nsq.PublishRejected, match=code):
                            await producer.publish(topic, body)
                        await producer.publish("another", b"x")
            assert producer.statistics().published == 10
