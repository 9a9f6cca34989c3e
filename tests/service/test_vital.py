"""`nsq.vital`: the process ends when its block fails, and only then."""

from __future__ import annotations

import signal
from collections.abc import Generator
from types import FrameType

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.embedded import AuthState

pytestmark = pytest.mark.anyio


@pytest.fixture
def signals() -> Generator[list[int]]:
    """The SIGTERMs that came."""
    came: list[int] = []

    def receive(number: int, _frame: FrameType | None) -> None:
        came.append(number)

    before = signal.signal(signal.SIGTERM, receive)
    yield came
    signal.signal(signal.SIGTERM, before)


async def test_a_consumer_that_is_refused_ends_the_process(
    signals: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    options = nsq.embedded.NsqdOptions(auth=lambda _: AuthState(authorizations=(), ttl=60))
    async with nsq.embedded.nsqd(options=options) as nsqd:
        with pytest.raises(nsq.PermanentRefusal):
            with nsq.vital():
                async with nsq.consume("t", "c", nsqd=nsqd.tcp_address):
                    await anyio.sleep_forever()
    assert signals == [signal.SIGTERM]
    (record,) = [each for each in caplog.records if each.name == "nsq_anyio.service"]
    assert record.exc_info is not None
    assert isinstance(record.exc_info[1], nsq.PermanentRefusal)


async def test_several_errors_end_the_process_too(signals: list[int]) -> None:
    with pytest.raises(ExceptionGroup):
        with nsq.vital():
            raise ExceptionGroup("several", [ValueError(), ValueError()])
    assert signals == [signal.SIGTERM]


async def test_a_block_that_succeeds_or_is_cancelled_has_not_failed(signals: list[int]) -> None:
    with nsq.vital():
        pass
    with anyio.CancelScope() as scope:
        scope.cancel()
        with nsq.vital():
            await anyio.sleep_forever()
    assert signals == []


def test_where_nothing_handles_the_signal_the_error_is_raised(signals: list[int]) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with pytest.raises(ZeroDivisionError), nsq.vital():
        raise ZeroDivisionError
    assert signals == []


def test_an_exit_is_no_failure(signals: list[int]) -> None:
    with pytest.raises(SystemExit):
        with nsq.vital():
            raise SystemExit(3)
    assert signals == []
