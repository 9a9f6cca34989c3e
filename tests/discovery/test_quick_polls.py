"""A client that starts before its nsqlookupds or its topic: it asks often, and says so after a while."""

import logging
from itertools import pairwise

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.events import LookupFailed, TopicUnknown

from .. import virtual_time
from ..consumer.fake_lookupd import FakeLookupd, fake_lookupd
from ..fake_nsqd import Events, fake_nsqd, serve

anyio_backend = virtual_time.anyio_backend
pytestmark = pytest.mark.anyio

UNKNOWN_TOPIC = {"message": "TOPIC_NOT_FOUND"}
REGULAR = nsq.ConsumerOptions(lookupd_poll_interval=10, lookupd_poll_jitter=0)


NOT_LISTED = "no nsqlookupd lists an nsqd that has it; "
CREATE = "check the name, or publish to it, which creates it"


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]


def pauses(lookupd: FakeLookupd) -> list[float]:
    return [round(later - earlier, 2) for earlier, later in pairwise(lookupd.times)]


async def test_until_the_topic_is_known_polls_follow_quickly_and_then_by_the_interval() -> None:
    events = Events()
    async with fake_nsqd(serve) as nsqd, fake_lookupd() as lookupd:
        lookupd.says(UNKNOWN_TOPIC, status=404)
        started = anyio.current_time()
        async with nsq.consume(
            "t", "c", nsqlookupd=lookupd.url, options=REGULAR, on_event=events
        ) as consumer:
            await anyio.sleep(2)  # after 5 polls
            lookupd.names(nsqd)
            await consumer.ready()
            await anyio.sleep(25)
        assert lookupd.times[0] - started < 0.05
        assert pauses(lookupd) == [0.1, 0.2, 0.4, 0.8, 1.6, 10, 10]
    assert not events.of(TopicUnknown)


async def test_a_topic_that_is_not_found_for_five_seconds_is_a_warning_once_until_it_is_found(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with fake_nsqd(serve) as nsqd, fake_lookupd() as lookupd:
        lookupd.says(UNKNOWN_TOPIC, status=404)
        async with nsq.consume("t", "c", nsqlookupd=lookupd.url, options=REGULAR) as consumer:
            await anyio.sleep(4.9)
            assert warnings(caplog) == []
            await anyio.sleep(2)  # after the poll at 6.3 s
            assert warnings(caplog) == [f"topic t is not known yet, next poll in 6.4 s: {NOT_LISTED}{CREATE}"]
            await anyio.sleep(100)
            assert len(warnings(caplog)) == 1
            lookupd.names(nsqd)
            await consumer.ready()
            await nsqd.connections[0].close()
            lookupd.says(UNKNOWN_TOPIC, status=404)
            await anyio.sleep(20)
    assert [text for text in warnings(caplog)[1:] if "connection lost" not in text] == [
        f"topic t is not known any more, next poll in 6.4 s: {NOT_LISTED}is its nsqd down?"
    ]


async def test_a_producer_that_no_nsqd_is_listed_for_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    async with fake_nsqd() as nsqd, fake_lookupd() as lookupd:
        options = nsq.ProducerOptions(lookupd_poll_interval=10, lookupd_poll_jitter=0)
        async with nsq.produce(nsqlookupd=lookupd.url, options=options):
            await anyio.sleep(4.9)
            assert warnings(caplog) == []
            await anyio.sleep(60)
            (text,) = warnings(caplog)
            lookupd.names(nsqd)
    assert text == (
        "no nsqd is known yet, next poll in 6.4 s: no nsqlookupd lists one; "
        "does nsqd run with their --lookupd-tcp-address?"
    )


async def test_a_topic_that_never_comes_is_asked_for_by_the_interval() -> None:
    async with fake_lookupd() as lookupd:
        async with nsq.consume("t", "c", nsqlookupd=lookupd.url, options=REGULAR):
            await anyio.sleep(45)
    assert pauses(lookupd) == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10, 10, 10]


async def test_it_hurries_again_once_nothing_is_connected_and_nothing_named() -> None:
    events = Events()
    async with fake_nsqd(serve) as nsqd, fake_lookupd(nsqd) as lookupd:
        async with nsq.consume(
            "t", "c", nsqlookupd=lookupd.url, options=REGULAR, on_event=events
        ) as consumer:
            await consumer.ready()
            lookupd.says(UNKNOWN_TOPIC, status=404)
            await anyio.sleep(22)
            assert pauses(lookupd) == [10, 10]  # what is connected leaves no haste
            await nsqd.connections[0].close()
            await anyio.sleep(1.4)  # reconnect_delay, and three more polls
            assert pauses(lookupd)[3:] == [0.1, 0.2, 0.4]
            lookupd.names(nsqd)
            await nsqd.subscribed(1)
    (unknown,) = events.of(TopicUnknown)
    assert (unknown.topic, unknown.was_known, unknown.retry_in) == ("t", True, 10)


async def test_all_nsqlookupds_are_asked_together() -> None:
    async with fake_lookupd() as first, fake_lookupd() as second:
        options = nsq.ConsumerOptions(lookupd_poll_interval=60)
        async with nsq.consume("t", "c", nsqlookupd=[first.url, second.url], options=options):
            await anyio.sleep(5)
        assert len(second.requests) >= 5
        assert all(abs(one - two) < 0.05 for one, two in zip(first.times, second.times, strict=True))
        assert min(pauses(first)) >= 0.1


async def test_failures_are_events_each_time_and_in_the_log_once_a_state(
    caplog: pytest.LogCaptureFixture,
) -> None:
    events = Events()
    async with fake_lookupd() as lookupd:
        lookupd.says({}, status=500)
        async with nsq.consume("t", "c", nsqlookupd=lookupd.url, options=REGULAR, on_event=events):
            await anyio.sleep(1)  # after 4 polls
            lookupd.says(UNKNOWN_TOPIC, status=404)
            await anyio.sleep(3)  # after 6
            lookupd.says({}, status=500)
            await anyio.sleep(5)  # after 7
    assert [round(event.retry_in, 1) for event in events.of(LookupFailed)][:4] == [0.1, 0.2, 0.4, 0.8]
    failed, again = warnings(caplog)
    assert failed.endswith(f"{lookupd.url} is asked again in 0.1 s")
    assert again.endswith(f"{lookupd.url} is asked again in 6.4 s")


@pytest.mark.parametrize("was_found", [False, True])
async def test_a_failure_that_lasts_is_logged_ever_more_seldom(
    caplog: pytest.LogCaptureFixture, was_found: bool
) -> None:
    async with fake_nsqd(serve) as nsqd, fake_lookupd(nsqd) as lookupd:
        if not was_found:
            lookupd.says({}, status=500)
        silent = nsq.ConnectionOptions(heartbeat_interval=3600)
        async with nsq.consume(
            "t", "c", nsqlookupd=lookupd.url, options=REGULAR, connection=silent
        ) as consumer:
            if was_found:
                await consumer.ready()
                lookupd.says({}, status=500)
            times: list[int] = []
            for second in range(0, 700, 5):
                await anyio.sleep(5)
                times += [second] * (len(warnings(caplog)) - len(times))
    between = [later - earlier for earlier, later in pairwise(times)]
    assert between == [*([10, 10] if was_found else [5, 15]), 20, 40, 80, 160, 300]


async def test_one_that_hangs_delays_no_quick_poll_of_the_others() -> None:
    events = Events()
    options = nsq.ConsumerOptions(lookupd_poll_interval=10, lookupd_poll_jitter=0, lookupd_poll_timeout=4)
    async with fake_nsqd(serve) as nsqd, fake_lookupd() as hanging, fake_lookupd() as lookupd:
        hanging.gate = anyio.Event()
        lookupd.says(UNKNOWN_TOPIC, status=404)
        urls = [hanging.url, lookupd.url]
        async with nsq.consume("t", "c", nsqlookupd=urls, options=options, on_event=events) as consumer:
            await anyio.sleep(2)
            assert pauses(lookupd) == [0.6, 0.7]  # each waits half a second for the one that hangs
            assert len(hanging.requests) == 1  # it is not asked again before it has answered or failed
            lookupd.names(nsqd)
            await consumer.ready()
            assert not events.of(LookupFailed)
            await anyio.sleep(12)
            # The next poll begins 10 s after all have answered or failed.
            assert pauses(lookupd)[2:] == [0.9, 11.8]
            assert len(hanging.requests) == 2
    assert {event.nsqlookupd for event in events.of(LookupFailed)} == {hanging.url}
    assert len(events.of(LookupFailed)) == 1


async def test_what_a_late_one_answers_to_a_quick_poll_is_used_at_once() -> None:
    async with fake_nsqd(serve) as nsqd, fake_lookupd(nsqd) as late, fake_lookupd() as lookupd:
        late.gate = anyio.Event()
        lookupd.says(UNKNOWN_TOPIC, status=404)
        urls = [late.url, lookupd.url]
        async with nsq.consume("t", "c", nsqlookupd=urls, options=REGULAR) as consumer:
            await anyio.sleep(3)
            late.gate.set()
            started = anyio.current_time()
            await consumer.ready()
            assert anyio.current_time() - started < 0.05
            assert len(late.requests) == 1
