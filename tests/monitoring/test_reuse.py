"""Rates and sums are the same, whether what has not changed is taken over or computed again."""

from __future__ import annotations

from typing import TypeAlias

from hypothesis import given, settings
from hypothesis import strategies as st

from nsq_anyio.http import ChannelStats, Node, NsqdSurvey, Stats, Survey, TopicStats, Totals
from nsq_anyio.monitoring import Meter

Answer: TypeAlias = tuple[str, int, bool, tuple[TopicStats, ...]]
Before: TypeAlias = tuple[Totals[TopicStats], ...]

CHANNELS = st.lists(
    st.builds(
        ChannelStats,
        channel_name=st.sampled_from(["c", "d"]),
        message_count=st.integers(0, 3),
        depth=st.integers(0, 2),
        requeue_count=st.integers(0, 2),
        timeout_count=st.integers(0, 2),
    ),
    max_size=2,
    unique_by=lambda channel: channel.channel_name,
).map(tuple)
# Few different ones, so that many topics are as they were in the survey before.
TOPICS = st.builds(
    TopicStats, topic_name=st.sampled_from(["t", "u"]), message_count=st.integers(0, 2), channels=CHANNELS
)
ANSWERS = st.tuples(
    st.sampled_from(["n1", "n2", "n3"]),
    st.integers(0, 1),
    st.sampled_from([True, True, True, False]),
    st.lists(TOPICS, max_size=2, unique_by=lambda topic: topic.topic_name).map(tuple),
)
POLLS = st.lists(
    st.tuples(
        st.sampled_from([0.0, 1.0, 2.0]), st.lists(ANSWERS, max_size=3, unique_by=lambda each: each[0])
    ),
    max_size=8,
)


def survey(answers: list[Answer], known: dict[object, TopicStats]) -> Survey:
    """A survey in which equal topics of an nsqd are the same object, as long as it has not restarted."""
    nsqds = [
        NsqdSurvey(
            node=Node(url=url),
            error="" if is_up else "down",
            stats=Stats(
                start_time=start,
                topics=tuple(known.setdefault((url, start, row), row) for row in topics) if is_up else (),
            ),
        )
        for url, start, is_up, topics in sorted(answers, key=lambda each: each[0])
    ]
    return Survey(time=0.0, seconds=0.0, nsqds=tuple(nsqds))


@given(POLLS)
@settings(max_examples=300)
def test_it_makes_no_difference_what_is_taken_over(polls: list[tuple[float, list[Answer]]]) -> None:
    known: dict[object, TopicStats] = {}
    quick, thorough = Meter(), Meter()
    before: Before = ()
    now = 0.0
    for seconds, answers in polls:
        now += seconds
        taken = survey(answers, known)
        topics = taken.topics(before)
        assert topics == taken.topics()
        assert quick.update(taken, now, topics) == thorough.update(taken, now)
        before = topics


def test_a_topic_in_which_nothing_has_changed_is_the_same_object() -> None:
    quiet, busy = TopicStats(topic_name="quiet"), TopicStats(topic_name="busy")
    before: Before = ()
    found: list[Before] = []
    for depth in (0, 1):
        busy = TopicStats(topic_name="busy", depth=depth)
        nsqd = NsqdSurvey(node=Node(url="n"), stats=Stats(topics=(quiet, busy)))
        before = Survey(time=0.0, seconds=0.0, nsqds=(nsqd,)).topics(before)
        found.append(before)
    (first_busy, first_quiet), (second_busy, second_quiet) = found
    assert second_quiet is first_quiet
    assert (first_busy.total.depth, second_busy.total.depth) == (0, 1)
