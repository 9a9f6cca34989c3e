"""How long registrations have been missing."""

from __future__ import annotations

from nsq_anyio.http import Node, NsqdSurvey, NsqlookupdSurvey, Survey
from nsq_anyio.monitoring.poller import Registrations

N1, N2 = Node(url="n1"), Node(url="n2")


def survey(*known: Node, lookup_error: str = "", down: tuple[Node, ...] = ()) -> Survey:
    return Survey(
        time=0.0,
        seconds=0.0,
        nsqlookupds=(NsqlookupdSurvey(url="l", error=lookup_error, nodes=known),),
        nsqds=tuple(NsqdSurvey(node=node, error="down" if node in down else "") for node in (N1, N2)),
    )


def test_they_are_missing_from_when_they_were_first_missed() -> None:
    registrations = Registrations()
    assert registrations.update(survey(N1, N2), 0.0) == {}
    assert registrations.update(survey(N1), 10.0) == {("n2", "l"): 0.0}
    assert registrations.update(survey(N1), 25.0) == {("n2", "l"): 15.0}
    assert registrations.update(survey(), 30.0) == {("n1", "l"): 0.0, ("n2", "l"): 20.0}
    assert registrations.update(survey(N1, N2), 40.0) == {}
    assert registrations.update(survey(N1), 50.0) == {("n2", "l"): 0.0}


def test_where_a_server_does_not_answer_nothing_is_known_and_nothing_forgotten() -> None:
    registrations = Registrations()
    registrations.update(survey(N1), 0.0)
    assert registrations.update(survey(lookup_error="down"), 10.0) == {}
    assert registrations.update(survey(N1, down=(N2,)), 20.0) == {}
    assert registrations.update(survey(N1), 30.0) == {("n2", "l"): 30.0}
    # It answers no more, and is registered again: what was missing is there.
    registrations.update(survey(N1, N2, down=(N2,)), 40.0)
    assert registrations.update(survey(N1), 50.0) == {("n2", "l"): 0.0}


def test_servers_that_are_gone_are_forgotten() -> None:
    registrations = Registrations()
    registrations.update(survey(N1), 0.0)
    assert registrations.update(Survey(time=0.0, seconds=0.0), 10.0) == {}
    assert registrations.update(survey(N1), 20.0) == {("n2", "l"): 0.0}
