"""What an HTTP status, and Retry-After, mean for a message."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from nsq_anyio import InvalidOption
from nsq_anyio.cli.to_http.status_policy import Action, StatusPolicy, retry_after

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def test_by_default_success_finishes_and_nothing_is_lost() -> None:
    policy = StatusPolicy.parse([])
    assert {policy.action(status) for status in range(200, 300)} == {Action.FINISH}
    others = {policy.action(status) for status in [*range(100, 200), *range(300, 600), 999]}
    assert others == {Action.BACKOFF}


def test_a_status_wins_over_its_class_in_any_order() -> None:
    for rules in (["4xx=discard", "404=requeue"], ["404=requeue", "4xx=discard"]):
        policy = StatusPolicy.parse(rules)
        assert policy.action(404) is Action.REQUEUE
        assert policy.action(400) is policy.action(499) is Action.DISCARD
        assert policy.action(500) is Action.BACKOFF


def test_the_last_of_two_rules_for_the_same_counts() -> None:
    assert StatusPolicy.parse(["409=discard", " 409=FINISH "]).action(409) is Action.FINISH
    assert StatusPolicy.parse(["2xx=backoff", "2XX=requeue"]).action(204) is Action.REQUEUE


@pytest.mark.parametrize(
    "rule", ["", "404", "404=", "=discard", "404=drop", "6xx=discard", "99=finish", "40x=finish", "404=a=b"]
)
def test_what_is_no_rule(rule: str) -> None:
    with pytest.raises(InvalidOption, match=r"is not a rule for a status.*finish, discard, requeue, backoff"):
        StatusPolicy.parse([rule])


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("0", 0.0),
        (" 7 ", 7.0),
        ("86400", 3600.0),
        ("999999999", 3600.0),
        ("9999999999", None),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        ("٣", None),
        ("Sun, 01 Mar 2026 12:00:30 GMT", 30.0),
        ("Sun, 01 Mar 2026 12:00:30 -0000", 30.0),
        ("Sun, 01 Mar 2026 14:00:30 +0200", 30.0),
        ("Sunday, 01-Mar-26 12:00:30 GMT", 30.0),
        ("Sun, 01 Mar 2026 11:00:00 GMT", 0.0),
        ("Mon, 01 Mar 2027 12:00:00 GMT", 3600.0),
        ("Sun, 99 Mar 2026 12:00:30 GMT", None),
    ],
)
def test_retry_after(value: str | None, seconds: float | None) -> None:
    assert retry_after(value, NOW) == seconds
