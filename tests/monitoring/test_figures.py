"""Rates and sums from surveys: nsqds that come, go, restart, or lose a topic distort none of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nsq_anyio.http import ChannelStats, Node, NsqdSurvey, Stats, Survey, TopicStats
from nsq_anyio.monitoring import Counts, Meter, Rates

TOPIC = ("t", "")
CHANNEL = ("t", "c")


def nsqd(
    url: str = "n1", *, messages: int = 0, depth: int = 0, requeued: int = 0, start: int = 1, error: str = ""
) -> NsqdSurvey:
    channel = ChannelStats(
        channel_name="c", message_count=messages, depth=depth, requeue_count=requeued, timeout_count=requeued
    )
    topic = TopicStats(
        topic_name="t", message_count=messages, message_bytes=10 * messages, channels=(channel,)
    )
    topics = () if error else (topic,)
    return NsqdSurvey(node=Node(url=url), error=error, stats=Stats(start_time=start, topics=topics))


def survey(*nsqds: NsqdSurvey) -> Survey:
    return Survey(time=0.0, seconds=0.0, nsqds=nsqds)


def test_the_first_survey_has_sums_and_no_rates() -> None:
    figures = Meter().update(survey(nsqd("n1", messages=5), nsqd("n2", messages=7, requeued=2)), 1.0)
    assert figures.rates == {}
    assert figures.sums == {TOPIC: Counts(12, 120, finished=12), CHANNEL: Counts(12, 0, 2, 2, 12)}


def test_rates_are_of_all_nsqds() -> None:
    meter = Meter()
    meter.update(survey(nsqd("n1", messages=10, depth=6), nsqd("n2", messages=100, depth=1)), 10.0)
    figures = meter.update(
        survey(nsqd("n1", messages=30, depth=16), nsqd("n2", messages=104, depth=0, requeued=8)), 12.0
    )
    assert figures.rates[CHANNEL] == Rates(ingress=12.0, egress=7.5, requeued=4.0, timed_out=4.0)
    assert figures.rates[TOPIC] == Rates(ingress=12.0, egress=12.0)
    assert figures.sums[CHANNEL] == Counts(134, 0, 8, 8, 118)


def test_rates_are_over_the_time_between_the_answers() -> None:
    meter = Meter()
    meter.update(survey(nsqd("n1", messages=10)), 10.0)
    late = replace(nsqd("n1", messages=30), age=3.0)
    assert meter.update(survey(late), 15.0).rates[TOPIC].ingress == 10.0
    assert meter.update(survey(nsqd("n1", messages=72)), 19.0).rates[TOPIC].ingress == 6.0


def test_what_is_in_flight_or_deferred_has_not_left() -> None:
    meter = Meter()

    def polled(**counts: Any) -> Survey:
        channel = ChannelStats(channel_name="c", message_count=10, **counts)
        return survey(
            NsqdSurvey(
                node=Node(url="n"), stats=Stats(topics=(TopicStats(topic_name="t", channels=(channel,)),))
            )
        )

    meter.update(polled(depth=10), 0.0)
    figures = meter.update(polled(depth=5, in_flight_count=2, deferred_count=1), 1.0)
    assert figures.rates[CHANNEL].egress == 2.0


def test_a_message_that_moves_while_nsqd_counts_is_not_finished_twice() -> None:
    meter = Meter()
    meter.update(survey(nsqd(messages=10, depth=4)), 0.0)
    for depth, finished in ((5, 6), (4, 6), (3, 7), (4, 7), (2, 8)):
        figures = meter.update(survey(nsqd(messages=10, depth=depth)), 1.0)
        assert figures.sums[CHANNEL].finished == finished
        assert figures.nodes["t"]["n1"]["c"][4] == finished


def test_an_nsqd_that_restarts_finishes_what_it_had_on_disk() -> None:
    meter = Meter()
    meter.update(survey(nsqd(messages=100, depth=40)), 0.0)
    figures = meter.update(survey(nsqd(messages=0, depth=45, start=2)), 1.0)  # 5 of them again
    assert figures.sums[CHANNEL].finished == 60
    assert figures.nodes["t"]["n1"]["c"][4] == 0
    figures = meter.update(survey(nsqd(messages=0, depth=44, start=2)), 2.0)
    assert (figures.sums[CHANNEL].finished, figures.rates[CHANNEL].egress) == (61, 1.0)
    assert figures.nodes["t"]["n1"]["c"][4] == 1


def test_an_nsqd_that_restarts_counts_from_zero() -> None:
    meter = Meter()
    meter.update(survey(nsqd(messages=100, depth=4)), 0.0)
    # More than before, which only its start time tells.
    figures = meter.update(survey(nsqd(messages=150, depth=4, start=2)), 1.0)
    assert figures.rates[CHANNEL].ingress == 150.0
    assert figures.sums[CHANNEL].messages == 250


def test_a_topic_that_was_deleted_and_came_back_counts_from_zero() -> None:
    meter = Meter()
    meter.update(survey(nsqd(messages=100, depth=50)), 0.0)
    figures = meter.update(survey(nsqd(messages=3)), 1.0)
    assert figures.rates[CHANNEL] == Rates(ingress=3.0, egress=53.0)
    assert figures.sums[CHANNEL].messages == 103


def test_a_channel_that_comes_back_later_than_its_topic_goes_on_like_it() -> None:
    meter = Meter()
    meter.update(survey(nsqd(messages=100)), 0.0)
    without_channel = TopicStats(topic_name="t", message_count=3, message_bytes=30)
    figures = meter.update(
        survey(NsqdSurvey(node=Node(url="n1"), stats=Stats(start_time=1, topics=(without_channel,)))), 1.0
    )
    assert figures.sums == {TOPIC: Counts(103, 1030, finished=103)}
    figures = meter.update(survey(nsqd(messages=5)), 2.0)
    assert figures.sums == {TOPIC: Counts(105, 1050, finished=105), CHANNEL: Counts(105, finished=105)}


def test_a_topic_that_is_new_on_a_known_nsqd_counts_at_once() -> None:
    meter = Meter()
    empty = NsqdSurvey(node=Node(url="n1"), stats=Stats(start_time=1))
    meter.update(survey(empty), 0.0)
    figures = meter.update(survey(nsqd(messages=4, depth=4)), 2.0)
    assert figures.rates[CHANNEL] == Rates(ingress=2.0)
    assert figures.sums[CHANNEL].messages == 4


def test_an_nsqd_that_comes_does_not_make_the_sums_jump() -> None:
    meter = Meter()
    meter.update(survey(nsqd("n1", messages=10)), 0.0)
    figures = meter.update(survey(nsqd("n1", messages=11), nsqd("n2", messages=1000)), 1.0)
    assert figures.rates[CHANNEL].ingress == 1.0
    assert figures.sums[CHANNEL].messages == 11
    figures = meter.update(survey(nsqd("n1", messages=11), nsqd("n2", messages=1002)), 2.0)
    assert figures.sums[CHANNEL].messages == 13


def test_an_nsqd_that_misses_a_survey_is_rated_over_the_time_between_its_answers() -> None:
    meter = Meter()
    meter.update(survey(nsqd(messages=10)), 0.0)
    figures = meter.update(survey(nsqd(error="down")), 1.0)
    assert figures.rates == {}
    assert figures.sums[CHANNEL].messages == 10
    figures = meter.update(survey(nsqd(messages=40)), 3.0)
    assert figures.rates[CHANNEL].ingress == 10.0
    assert figures.sums[CHANNEL].messages == 40


def test_what_no_nsqd_has_any_more_is_forgotten() -> None:
    meter = Meter()
    meter.update(survey(nsqd("n1", messages=10), nsqd("n2", messages=1)), 0.0)
    empty = NsqdSurvey(node=Node(url="n1"), stats=Stats(start_time=1))
    assert meter.update(survey(empty, nsqd("n2", messages=1)), 1.0).sums[CHANNEL].messages == 11
    assert meter.update(survey(empty), 2.0).sums == {}


def test_two_answers_at_one_time_have_no_rate() -> None:
    meter = Meter()
    meter.update(survey(nsqd(messages=1)), 1.0)
    figures = meter.update(survey(nsqd(messages=2)), 1.0)
    assert (figures.rates, figures.sums[CHANNEL].messages) == ({}, 2)


def test_a_topic_that_an_nsqd_lists_twice_counts_once() -> None:
    topic = TopicStats(topic_name="t", message_count=5)
    twice = NsqdSurvey(node=Node(url="n1"), stats=Stats(topics=(topic, topic)))
    assert Meter().update(survey(twice), 0.0).sums == {TOPIC: Counts(5, 0, finished=5)}


ANSWERS = st.builds(
    nsqd,
    st.sampled_from(["n1", "n2", "n3"]),
    messages=st.integers(0, 50),
    depth=st.integers(0, 50),
    requeued=st.integers(0, 9),
    start=st.integers(0, 2),
    error=st.sampled_from(["", "", "down"]),
)
POLLS = st.lists(st.lists(ANSWERS, max_size=3, unique_by=lambda each: each.node.url), max_size=8)


@given(POLLS)
def test_no_rate_is_negative_and_no_sum_decreases(polls: list[list[NsqdSurvey]]) -> None:
    meter = Meter()
    before: dict[tuple[str, str], Counts] = {}
    for number, nsqds in enumerate(polls):
        figures = meter.update(survey(*nsqds), float(number))
        for rates in figures.rates.values():
            assert min(rates.ingress, rates.egress, rates.requeued, rates.timed_out) >= 0.0
        for key, counts in figures.sums.items():
            known = before.get(key, Counts())
            assert counts.messages >= known.messages
            assert counts.requeued >= known.requeued
            assert counts.finished >= known.finished
        before = figures.sums
