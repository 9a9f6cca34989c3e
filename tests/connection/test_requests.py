"""Requests on a running connection, their answers, and what is known of those that are lost."""

import anyio
import pytest

from nsq_anyio.connection import Request
from nsq_anyio.errors import (
    ConnectionLost,
    PermanentRefusal,
    ProtocolError,
    ServerError,
)
from nsq_anyio.options import ConnectionOptions
from nsq_anyio.protocol.session import State

from ..fake_nsqd import until
from .opened import HUGE, ends, opened

pytestmark = pytest.mark.anyio


# Requests and answers.


async def test_answers_pair_with_requests_in_order() -> None:
    async with opened() as c:
        requests = [c.publish(b"one"), c.publish(b"two")]
        assert c.client.outstanding == 2
        await c.peer.expect(b"PUB t", b"PUB t")
        await c.peer.response(b"first")
        await c.peer.response(b"second")
        assert [await request.wait() for request in requests] == [b"first", b"second"]
        assert c.client.outstanding == 0


async def test_a_cancelled_request_keeps_its_place_in_the_order() -> None:
    async with opened() as c:
        first, second = c.publish(b"one"), c.publish(b"two")
        with anyio.move_on_after(0.02) as scope:
            await first.wait()
        assert scope.cancelled_caught
        await c.peer.response(b"first")
        await c.peer.response(b"second")
        assert await second.wait() == b"second"


async def test_a_heartbeat_is_answered_and_answers_no_request() -> None:
    async with opened() as c:
        request = c.publish()
        await c.peer.expect(b"PUB t")
        await c.peer.heartbeat()
        await c.peer.expect(b"NOP")
        await c.peer.response()
        assert await request.wait() == b"OK"


async def test_a_failed_answer_to_a_message_is_no_answer_to_a_request() -> None:
    async with opened() as c:
        await c.subscribe()
        request = c.publish()
        await c.peer.error(b"E_FIN_FAILED FIN 0123456789abcdef failed ID not in flight")
        await c.peer.response()
        assert await request.wait() == b"OK"
        (failed,) = c.receiver.failures
        assert failed.message_id == b"0123456789abcdef"
        assert failed.error.code == "E_FIN_FAILED"


async def test_messages_reach_the_receiver_however_they_are_cut() -> None:
    async with opened() as c:
        await c.subscribe()
        c.proxy.to_client.piece = 7
        await c.peer.messages(b"one", b"two", b"three")
        await until(lambda: len(c.receiver.bodies) == 3)
        assert c.receiver.bodies == [b"one", b"two", b"three"]


async def test_a_command_that_is_not_legal_now_is_refused_before_it_is_sent() -> None:
    async with opened() as c:
        with pytest.raises(ProtocolError, match="CLS cannot be sent"):
            c.client.stop_messages()
        assert await c.peer.quiet(0.02)


# Subscribing.


async def test_subscribing_makes_the_connection_subscribed() -> None:
    async with opened() as c:
        await c.subscribe()
        assert c.client.state is State.SUBSCRIBED


async def test_a_subscription_that_is_not_answered_in_time_is_a_lost_connection() -> None:
    with pytest.raises(ConnectionLost, match=r"no answer to SUB within handshake_timeout=0\.1 s"):
        async with opened(ConnectionOptions(handshake_timeout=0.1)) as c:
            await c.client.subscribe("t", "c")


@pytest.mark.parametrize("code", ["E_BAD_TOPIC", "E_BAD_CHANNEL", "E_UNAUTHORIZED"])
async def test_a_subscription_refused_for_good_is_raised_as_it_is(code: str) -> None:
    with pytest.raises(PermanentRefusal, match="no way") as refusal:
        async with opened() as c, anyio.create_task_group() as tasks:
            tasks.start_soon(c.peer.error, f"{code} no way".encode())
            await c.client.subscribe("t", "c")
    assert refusal.value.code == code


async def test_a_subscription_refused_for_now_is_a_lost_connection() -> None:
    with pytest.raises(ConnectionLost, match="nsqd refused a command: E_SUB_FAILED limit") as lost:
        async with opened() as c, anyio.create_task_group() as tasks:
            tasks.start_soon(c.peer.error, b"E_SUB_FAILED limit")
            await c.client.subscribe("t", "c")
    assert isinstance(lost.value.__cause__, ServerError)


# Whether a lost request may have been executed.


async def lost_requests(*bodies: bytes, stalled: bool = False, refusal: bytes = b"") -> list[Request]:
    """Requests in the order they were made, after the connection has ended."""
    requests: list[Request] = []
    with pytest.raises(ConnectionLost):
        async with opened() as c:
            c.proxy.stalled = stalled
            for body in bodies:
                requests.append(c.publish(body))
                await anyio.wait_all_tasks_blocked()
            if refusal:
                for _ in bodies:
                    await c.peer.expect(b"PUB t")
                await c.peer.error(refusal)
            c.proxy.cut()
            await ends(c)
    for request in requests:
        with pytest.raises((ConnectionLost, ServerError)):
            await request.wait()
    return requests


async def test_what_was_sent_and_lost_may_have_been_executed() -> None:
    assert [request.maybe_executed for request in await lost_requests(b"a", b"b")] == [True, True]


async def test_what_was_still_queued_was_certainly_not_executed() -> None:
    requests = await lost_requests(HUGE, b"b", b"c", stalled=True)
    assert [request.maybe_executed for request in requests] == [True, False, False]


async def test_what_follows_a_refused_command_was_certainly_not_executed() -> None:
    requests: list[Request] = []
    with pytest.raises(ConnectionLost, match="E_BAD_MESSAGE"):
        async with opened() as c:
            requests += [c.publish(b"a"), c.publish(b"b"), c.publish(b"c")]
            await c.peer.expect(b"PUB t", b"PUB t", b"PUB t")
            await c.peer.response()
            await c.peer.error(b"E_BAD_MESSAGE PUB invalid message body size")
            await ends(c)
    assert await requests[0].wait() == b"OK"
    with pytest.raises(ServerError, match="E_BAD_MESSAGE"):
        await requests[1].wait()
    with pytest.raises(ConnectionLost):
        await requests[2].wait()
    assert [request.maybe_executed for request in requests] == [False, False, False]
