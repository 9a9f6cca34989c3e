"""The TLS handshake: whom both sides accept, and what each is told when one refuses or is gone."""

import ssl

import anyio
import anyio.lowlevel
import pytest

from nsq_anyio.options import TLSOptions
from nsq_anyio.transport.tls import TLSStream, start_tls
from nsq_anyio.transport.tls_context import client_context

from ..tls_files import KEY_PASSWORD, KeyPair, TLSFiles
from .tls_streams import VERSIONS, Ends, receive_exactly, server_context, shake_hands, transports

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(20)]


@pytest.fixture(params=VERSIONS, ids=["TLSv1.2", "TLSv1.3"])
def version(request: pytest.FixtureRequest) -> ssl.TLSVersion:
    version: ssl.TLSVersion = request.param
    return version


async def try_out(
    client: ssl.SSLContext, server: ssl.SSLContext, *, server_hostname: str | None = "localhost"
) -> Ends:
    """A handshake, and one exchange when it succeeds."""
    async with transports() as (left, right):
        ends = await shake_hands(left, right, client, server, server_hostname=server_hostname)
        if isinstance(ends.client, TLSStream) and isinstance(ends.server, TLSStream):
            await ends.server.send(b"hello")
            assert await receive_exactly(ends.client, 5) == b"hello"
    return ends


@pytest.mark.parametrize("name", ["localhost", "localhost.", "127.0.0.1", "::1"])
async def test_a_server_is_known_by_its_name_or_address(
    tls_files: TLSFiles, version: ssl.TLSVersion, name: str
) -> None:
    context = client_context(TLSOptions(ca_file=tls_files.ca_file))
    ends = await try_out(context, server_context(tls_files.server, version), server_hostname=name)
    assert isinstance(ends.client, TLSStream)
    assert isinstance(ends.server, TLSStream)


@pytest.mark.parametrize(
    ("pair", "complaint", "alert"),
    [
        ("stranger", "unable to get local issuer certificate", "TLSV1_ALERT_UNKNOWN_CA"),
        ("expired", "certificate has expired", "SSLV3_ALERT_CERTIFICATE_EXPIRED"),
        ("other_host", "Hostname mismatch, certificate is not valid for 'localhost'.", "BAD_CERTIFICATE"),
    ],
)
async def test_a_server_that_is_not_trusted(
    tls_files: TLSFiles, version: ssl.TLSVersion, pair: str, complaint: str, alert: str
) -> None:
    context = client_context(TLSOptions(ca_file=tls_files.ca_file))
    ends = await try_out(context, server_context(getattr(tls_files, pair), version))
    assert isinstance(ends.client, ssl.SSLCertVerificationError)
    assert ends.client.verify_message == complaint
    assert isinstance(ends.server, ssl.SSLError)
    assert alert in ends.server.reason


@pytest.mark.parametrize("pair", ["stranger", "expired", "other_host"])
@pytest.mark.parametrize("name", ["localhost", None])
async def test_without_verification_any_server_will_do(
    tls_files: TLSFiles, version: ssl.TLSVersion, pair: str, name: str | None
) -> None:
    context = client_context(TLSOptions(verify=False))
    ends = await try_out(context, server_context(getattr(tls_files, pair), version), server_hostname=name)
    assert isinstance(ends.client, TLSStream)


async def test_the_systems_authorities_do_not_know_a_private_one(
    tls_files: TLSFiles, version: ssl.TLSVersion
) -> None:
    ends = await try_out(client_context(TLSOptions()), server_context(tls_files.server, version))
    assert isinstance(ends.client, ssl.SSLCertVerificationError)


async def test_versions_that_do_not_meet(tls_files: TLSFiles) -> None:
    context = client_context(TLSOptions(ca_file=tls_files.ca_file, minimum_version="TLSv1.3"))
    ends = await try_out(context, server_context(tls_files.server, ssl.TLSVersion.TLSv1_2))
    assert isinstance(ends.client, ssl.SSLError)
    assert ends.client.reason == "TLSV1_ALERT_PROTOCOL_VERSION"
    assert isinstance(ends.server, ssl.SSLError)


def with_certificate(files: TLSFiles, pair: KeyPair | None) -> ssl.SSLContext:
    if pair is None:
        return client_context(TLSOptions(ca_file=files.ca_file))
    return client_context(
        TLSOptions(
            ca_file=files.ca_file,
            certificate_file=pair.certificate_file,
            private_key_file=pair.private_key_file,
            private_key_password=KEY_PASSWORD if pair is files.encrypted_client else None,
        )
    )


@pytest.mark.parametrize("pair", ["client", "encrypted_client"])
async def test_a_client_that_shows_its_certificate(
    tls_files: TLSFiles, version: ssl.TLSVersion, pair: str
) -> None:
    ends = await try_out(
        with_certificate(tls_files, getattr(tls_files, pair)),
        server_context(tls_files.server, version, client_ca_file=tls_files.ca_file),
    )
    assert isinstance(ends.server, TLSStream)


@pytest.mark.parametrize(
    ("pair", "alert", "complaint"),
    [
        (None, "CERTIFICATE_REQUIRED|HANDSHAKE_FAILURE", "PEER_DID_NOT_RETURN_A_CERTIFICATE"),
        ("stranger", "TLSV1_ALERT_UNKNOWN_CA", "CERTIFICATE_VERIFY_FAILED"),
    ],
)
async def test_a_client_that_is_not_accepted(
    tls_files: TLSFiles, version: ssl.TLSVersion, pair: str | None, alert: str, complaint: str
) -> None:
    """On TLS 1.3 it is told at its first receive."""
    context = with_certificate(tls_files, getattr(tls_files, pair) if pair else None)
    demanding = server_context(tls_files.server, version, client_ca_file=tls_files.ca_file)
    async with transports() as (left, right):
        ends = await shake_hands(left, right, context, demanding)
        refusal = ends.client
        if version is ssl.TLSVersion.TLSv1_3:
            assert isinstance(refusal, TLSStream)
            with pytest.raises(anyio.BrokenResourceError) as failure:
                await refusal.receive()
            refusal = failure.value.__cause__
    assert isinstance(refusal, ssl.SSLError)
    assert any(name in refusal.reason for name in alert.split("|"))
    assert isinstance(ends.server, ssl.SSLError)
    assert ends.server.reason == complaint


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\6\0\0\0\0OK", b"\n" * 11])
async def test_a_peer_that_does_not_speak_tls(tls_files: TLSFiles, answer: bytes) -> None:
    context = client_context(TLSOptions(ca_file=tls_files.ca_file))
    async with transports() as (left, right):
        await right.send(answer)
        with pytest.raises(ssl.SSLError) as failure:
            await start_tls(left, context, server_hostname="localhost")
        assert failure.value.reason == "WRONG_VERSION_NUMBER"


async def test_a_peer_that_says_nothing_can_be_given_up(tls_files: TLSFiles) -> None:
    context = client_context(TLSOptions(ca_file=tls_files.ca_file))
    async with transports() as (left, _):
        with anyio.move_on_after(0.03) as scope:
            await start_tls(left, context, server_hostname="localhost")
        assert scope.cancelled_caught


async def test_a_peer_that_hangs_up_instead(tls_files: TLSFiles) -> None:
    context = client_context(TLSOptions(ca_file=tls_files.ca_file))
    async with transports() as (left, right):
        await right.send_eof()
        with pytest.raises(anyio.EndOfStream):
            await start_tls(left, context, server_hostname="localhost")


async def test_a_peer_that_is_gone_before_it_is_told_of_the_refusal(tls_files: TLSFiles) -> None:
    context = client_context(TLSOptions(ca_file=tls_files.ca_file))
    async with transports() as (left, right):
        await right.aclose()
        with pytest.raises(ssl.SSLError) as failure:
            await start_tls(left, context, server_hostname="localhost", received=b"no TLS at all")
        assert failure.value.reason == "WRONG_VERSION_NUMBER"


@pytest.mark.parametrize("read_before", [1, 5, 100, 65536])
async def test_what_was_read_before_belongs_to_the_handshake(
    tls_files: TLSFiles, version: ssl.TLSVersion, read_before: int
) -> None:
    """The server side of nsqd's protocol may have read on, past IDENTIFY."""
    async with transports() as (left, right):

        async def accept() -> None:
            received = await right.receive(read_before)
            context = server_context(tls_files.server, version)
            server = await start_tls(right, context, server_side=True, received=received)
            await server.send(b"hello")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(accept)
            context = client_context(TLSOptions(ca_file=tls_files.ca_file))
            client = await start_tls(left, context, server_hostname="localhost")
            assert await client.receive() == b"hello"


async def test_data_that_came_with_the_end_of_the_handshake_is_at_hand(
    tls_files: TLSFiles, version: ssl.TLSVersion
) -> None:
    async with transports() as (left, right):

        async def accept() -> None:
            context = server_context(tls_files.server, version)
            server = await start_tls(right, context, server_side=True)
            await server.send(b"at once")
            await right.stream.send(b"".join(right.held or []))
            await right.aclose()

        async def hold_all_but_the_first_flight() -> None:
            while not right.sent:
                await anyio.lowlevel.checkpoint()
            right.held = []

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(accept)
            tasks.start_soon(hold_all_but_the_first_flight)
            context = client_context(TLSOptions(ca_file=tls_files.ca_file))
            client = await start_tls(left, context, server_hostname="localhost")
            assert await client.receive() == b"at once"


@pytest.mark.parametrize("name", [".example", "a..b", "a\0b", "x" * 300])
async def test_a_name_that_no_certificate_can_carry(tls_files: TLSFiles, name: str) -> None:
    context = client_context(TLSOptions(ca_file=tls_files.ca_file))
    async with transports() as (left, _):
        with pytest.raises(ssl.SSLError) as failure:
            await start_tls(left, context, server_hostname=name)
        assert str(failure.value).startswith(f"server_hostname={name!r} cannot be used: ")
        assert failure.value.reason == str(failure.value)
        assert not left.sent


async def test_a_name_must_be_given_when_it_is_checked(tls_files: TLSFiles) -> None:
    context = client_context(TLSOptions(ca_file=tls_files.ca_file))
    async with transports() as (left, _):
        with pytest.raises(ssl.SSLError, match="server_hostname=None cannot be used: the context checks it"):
            await start_tls(left, context)


async def test_a_context_for_the_other_side_is_refused(tls_files: TLSFiles) -> None:
    async with transports() as (left, _):
        with pytest.raises(ssl.SSLError, match="Cannot create a client socket"):
            await start_tls(left, server_context(tls_files.server, VERSIONS[1]))
