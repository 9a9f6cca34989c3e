"""The last answers of nsqds: of those that are silent now, and as the base of the rates of each."""

from __future__ import annotations

from nsq_anyio.http import ChannelStats, Node, NsqdSurvey, Stats, Survey, TopicStats
from nsq_anyio.monitoring.last_answers import UNKNOWN, LastAnswers, rates_on, total_rates
from nsq_anyio.monitoring.snapshot import LastAnswer, Rates


def nsqd(url: str, count: int = 0, *, depth: int = 0, began: int = 1, error: str = "") -> NsqdSurvey:
    channel = ChannelStats(channel_name="c", message_count=count, depth=depth)
    topics = () if error else (TopicStats(topic_name="t", message_count=count, channels=(channel,)),)
    return NsqdSurvey(node=Node(url=url), error=error, stats=Stats(start_time=began, topics=topics))


def survey(*nsqds: NsqdSurvey) -> Survey:
    return Survey(time=0.0, seconds=0.0, nsqds=nsqds)


def test_a_silent_nsqd_keeps_its_last_answer() -> None:
    answers = LastAnswers()
    first, other = nsqd("a", 1), nsqd("b", 1)
    assert answers.update(survey(first, other, nsqd("c", error="refused")), 10) == {}
    assert answers.update(survey(nsqd("a", error="refused"), nsqd("b", 2)), 15) == {
        "a": LastAnswer(first, 5),
        "b": LastAnswer(other, 5),
    }
    assert answers.update(survey(nsqd("a", error="refused")), 20) == {"a": LastAnswer(first, 10)}
    assert answers.update(survey(nsqd("a", 3)), 25) == {"a": LastAnswer(first, 15)}
    assert answers.update(survey(), 30) == {}


def test_an_nsqd_has_rates_of_its_own() -> None:
    last = LastAnswer(nsqd("a", 100, depth=10), 5)
    rates = rates_on(nsqd("a", 200, depth=60), last, "t")
    assert rates["c"] == Rates(ingress=20, egress=10)
    assert rates[""].ingress == 20
    assert rates_on(nsqd("a", 50, began=2), last, "t")["c"].ingress == 10  # it was restarted
    assert rates_on(nsqd("a", 200), last, "other") == {}
    assert rates_on(nsqd("a", 200), None, "t") == {}


def test_the_rates_of_an_nsqd_are_those_of_its_topics_and_channels() -> None:
    before = nsqd("a", 100, depth=10)
    assert total_rates(nsqd("a", 200, depth=60), LastAnswer(before, 5)) == Rates(ingress=20, egress=10)
    assert total_rates(before, LastAnswer(before, 5)) == Rates()
    assert total_rates(before, None) is UNKNOWN
    assert total_rates(nsqd("a", error="refused"), LastAnswer(before, 5)) is UNKNOWN
