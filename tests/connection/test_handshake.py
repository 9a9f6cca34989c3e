"""The magic, IDENTIFY and its answer; and what answers instead, when the peer is no nsqd."""

import json
import random
import socket
import struct
from collections.abc import Awaitable, Callable

import anyio
import pytest

from nsq_anyio.connection import NoMessages, open_connection
from nsq_anyio.errors import ConnectionLost, HandshakeFailed, PermanentRefusal
from nsq_anyio.options import ConnectionOptions, default_user_agent
from nsq_anyio.protocol.frames import (
    FRAME_ERROR,
    FRAME_RESPONSE,
    HEARTBEAT,
    encode_frame,
    encode_message_frame,
)
from nsq_anyio.protocol.identify import IdentifyReply
from nsq_anyio.testing.faults import fault_proxy

from ..fake_nsqd import (
    FakeConnection,
    FakeNsqd,
    Script,
    client_tasks,
    fake_nsqd,
    hold,
    identified,
    message_id,
)

pytestmark = pytest.mark.anyio

REPLY = {"version": "1.3.0", "max_rdy_count": 77, "msg_timeout": 1500, "max_msg_timeout": 9000}
ANSWER = encode_frame(FRAME_RESPONSE, b"OK")
HEARTBEAT_FRAME = encode_frame(FRAME_RESPONSE, HEARTBEAT)


async def identity(nsqd: FakeNsqd, **options: object) -> IdentifyReply:
    """What a client that connects with ``options`` has learnt about ``nsqd``."""
    async with open_connection(nsqd.parsed, ConnectionOptions(**options), NoMessages()) as connection:  # type: ignore[arg-type]
        return connection.identity


async def failure(script: Script, **options: object) -> HandshakeFailed:
    """Why the handshake with a peer that follows ``script`` failed; nothing is left of it."""
    async with fake_nsqd(script) as nsqd:
        with anyio.fail_after(5), pytest.raises(HandshakeFailed) as caught:
            await identity(nsqd, **options)
        assert type(caught.value) is HandshakeFailed
        assert caught.value.nsqd == nsqd.address
        assert client_tasks() == []
        return caught.value


def saying(data: bytes, *, then_close: bool = False) -> Script:
    """The script of a peer that answers IDENTIFY with ``data``."""

    async def script(connection: FakeConnection) -> None:
        await connection.introduction()
        await connection.send(data)
        if not then_close:
            await hold(connection)

    return script


# It succeeds.


async def test_what_nsqd_answers_is_known_afterwards() -> None:
    async with fake_nsqd(identified(REPLY)) as nsqd:
        reply = await identity(nsqd)
    assert reply == IdentifyReply(version="1.3.0", max_rdy_count=77, msg_timeout=1.5, max_msg_timeout=9.0)


async def test_it_may_come_byte_by_byte_both_ways() -> None:
    async with fake_nsqd(identified(REPLY)) as nsqd, fault_proxy(nsqd.address) as proxy:
        proxy.to_client.piece = proxy.to_server.piece = 1
        nsqd.address = proxy.address
        assert (await identity(nsqd)).version == "1.3.0"
        assert nsqd.connections[0].identity["feature_negotiation"] is True


async def test_an_old_nsqd_answers_plain_ok_and_the_defaults_hold() -> None:
    async with fake_nsqd(identified(b"OK")) as nsqd:
        reply = await identity(nsqd, msg_timeout=5)
    assert (reply.version, reply.max_rdy_count, reply.msg_timeout) == ("", 2500, 5)


async def test_identify_says_what_the_options_say() -> None:
    async with fake_nsqd(identified()) as nsqd:
        await identity(
            nsqd,
            client_id="me",
            hostname="me.example",
            user_agent="mine/1",
            heartbeat_interval=2.5,
            sample_rate=10,
            output_buffer_size=64,
            output_buffer_timeout=0.1,
            msg_timeout=7,
        )
        assert nsqd.connections[0].identity == {
            "client_id": "me",
            "hostname": "me.example",
            "user_agent": "mine/1",
            "feature_negotiation": True,
            "heartbeat_interval": 2500,
            "sample_rate": 10,
            "output_buffer_size": 64,
            "output_buffer_timeout": 100,
            "msg_timeout": 7000,
        }


async def test_identify_leaves_to_nsqd_what_the_options_leave_open() -> None:
    async with fake_nsqd(identified()) as nsqd:
        await identity(nsqd)
        assert nsqd.connections[0].identity == {
            "client_id": socket.gethostname().partition(".")[0],
            "hostname": socket.gethostname(),
            "user_agent": default_user_agent(),
            "feature_negotiation": True,
            "heartbeat_interval": 30000,
            "output_buffer_timeout": 25,
        }


async def test_a_heartbeat_may_come_before_the_answer() -> None:
    async def script(connection: FakeConnection) -> None:
        await connection.introduction()
        await connection.send(HEARTBEAT_FRAME)
        assert await connection.quiet(0.02)  # so that it is a chunk of its own for the client
        await connection.send(encode_frame(FRAME_RESPONSE, json.dumps(REPLY).encode()))

    async with fake_nsqd(script) as nsqd:
        assert (await identity(nsqd)).version == "1.3.0"


@pytest.mark.parametrize("data", [HEARTBEAT_FRAME + ANSWER, ANSWER + HEARTBEAT_FRAME])
async def test_a_heartbeat_may_come_together_with_the_answer(data: bytes) -> None:
    async with fake_nsqd(saying(data)) as nsqd:
        assert (await identity(nsqd)).max_rdy_count == 2500


async def test_the_beginning_of_a_frame_behind_the_answer_is_not_lost() -> None:
    async with (
        fake_nsqd(saying(ANSWER + HEARTBEAT_FRAME[:7])) as nsqd,
        open_connection(nsqd.parsed, ConnectionOptions(), NoMessages()),
    ):
        peer = await nsqd.connection()
        await peer.send(HEARTBEAT_FRAME[7:])
        await peer.expect(b"NOP")


# It is refused.


@pytest.mark.parametrize("code", [b"E_BAD_BODY", b"E_INVALID", b"E_UNAUTHORIZED", b"E_IDENTIFY_FAILED"])
async def test_a_refusal_for_good_is_raised_as_it_is(code: bytes) -> None:
    async def script(connection: FakeConnection) -> None:
        await connection.introduction()
        await connection.error(code + b" IDENTIFY msg timeout (1000000) is invalid")

    async with fake_nsqd(script) as nsqd:
        with pytest.raises(PermanentRefusal, match=r"msg timeout \(1000000\) is invalid") as refusal:
            await identity(nsqd)
        assert refusal.value.code == code.decode()
        assert client_tasks() == []


async def test_another_error_may_pass_so_it_is_a_failed_handshake() -> None:
    error = await failure(saying(encode_frame(FRAME_ERROR, b"E_SUB_FAILED not now")))
    assert "IDENTIFY was refused: E_SUB_FAILED not now" in str(error)


async def test_an_answer_too_many_ends_the_connection() -> None:
    async with fake_nsqd(saying(ANSWER + ANSWER)) as nsqd:
        with anyio.fail_after(5), pytest.raises(ConnectionLost, match="no request was waiting"):
            async with open_connection(nsqd.parsed, ConnectionOptions(), NoMessages()):
                await anyio.sleep_forever()


# The peer is no nsqd.

HTTP_ANSWER = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n400 Bad Request"


async def test_an_http_server_is_recognised() -> None:
    error = await failure(saying(HTTP_ANSWER, then_close=True))
    assert "HTTP" in str(error)
    assert "4150" in str(error)


async def test_nsqlookupd_answers_in_framing_of_its_own() -> None:
    await failure(saying(struct.pack(">I", 14) + b"E_BAD_PROTOCOL", then_close=True))


@pytest.mark.parametrize("seed", range(12))
async def test_random_bytes_are_a_failed_handshake(seed: int) -> None:
    rng = random.Random(seed)
    # Some announce a frame of any type that could be read, so that more than its header is looked at.
    start = struct.pack(">ii", rng.randrange(40), rng.randrange(4)) if seed % 2 else b""
    await failure(saying(start + rng.randbytes(rng.randrange(1, 200)), then_close=True))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (encode_frame(FRAME_RESPONSE, b"{"), "neither OK nor a JSON object"),
        (encode_frame(FRAME_RESPONSE, b"[]"), "neither OK nor a JSON object"),
        (encode_frame(FRAME_RESPONSE, b'{"max_rdy_count": "many"}'), "max_rdy_count='many'"),
        (encode_frame(FRAME_ERROR, b"E_FIN_FAILED FIN 0123456789abcdef failed"), "E_FIN_FAILED"),
        (encode_message_frame(1, 1, message_id(1), b"x"), "pushed message"),
        (struct.pack(">ii", 1000, 0), "exceeds max_frame_size=500"),
        (struct.pack(">ii", -1, 0), "announced -1 bytes"),
    ],
)
async def test_an_answer_that_makes_no_sense_is_a_failed_handshake(data: bytes, reason: str) -> None:
    assert reason in str(await failure(saying(data), max_frame_size=500))


# The peer does not answer.


async def test_a_peer_that_hangs_up_at_once() -> None:
    async def script(connection: FakeConnection) -> None:
        await connection.introduction()

    assert "is this nsqd's TCP port?" in str(await failure(script))


async def test_a_peer_that_hangs_up_within_its_answer() -> None:
    assert "closed the connection" in str(await failure(saying(ANSWER[:5], then_close=True)))


async def test_a_peer_that_resets_the_connection() -> None:
    async with fake_nsqd() as nsqd, fault_proxy(nsqd.address) as proxy, anyio.create_task_group() as tasks:
        nsqd.address = proxy.address

        async def reset() -> None:
            await (await nsqd.connection()).introduction()
            proxy.reset()

        tasks.start_soon(reset)
        with pytest.raises(HandshakeFailed, match="the connection broke before the answer to IDENTIFY"):
            await identity(nsqd)


@pytest.mark.parametrize("data", [b"", ANSWER[:5], HEARTBEAT_FRAME])
async def test_silence_ends_after_handshake_timeout(data: bytes) -> None:
    error = await failure(saying(data) if data else hold, handshake_timeout=0.03)
    assert "no answer to IDENTIFY within handshake_timeout=0.03 s" in str(error)


async def test_heartbeats_alone_do_not_prolong_the_handshake() -> None:
    async def script(connection: FakeConnection) -> None:
        while True:
            await connection.heartbeat()
            await anyio.sleep(0.005)

    assert "handshake_timeout" in str(await failure(script, handshake_timeout=0.05))


async def test_a_peer_that_accepts_but_passes_nothing_on() -> None:
    async with fake_nsqd(identified()) as nsqd, fault_proxy(nsqd.address) as proxy:
        nsqd.address = proxy.address
        proxy.stalled = True
        with pytest.raises(HandshakeFailed, match="handshake_timeout"):
            await identity(nsqd, handshake_timeout=0.03)


# Nothing is left behind.


async def cancelled(nsqd: FakeNsqd) -> None:
    with anyio.move_on_after(0.02):
        await identity(nsqd)


async def timed_out(nsqd: FakeNsqd) -> None:
    with pytest.raises(HandshakeFailed):
        await identity(nsqd, handshake_timeout=0.02)


@pytest.mark.parametrize("attempt", [cancelled, timed_out])
async def test_an_unfinished_handshake_closes_the_socket(
    attempt: Callable[[FakeNsqd], Awaitable[None]],
) -> None:
    async with fake_nsqd() as nsqd:
        await attempt(nsqd)
        connection = await nsqd.connection()
        await connection.introduction()
        await connection.eof()
        assert client_tasks() == []
