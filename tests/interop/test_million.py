"""A million messages, each once, at a rate that stands beside a bare socket's."""

import pytest

from ..benchmarks.consume_rate import READERS, filled_nsqd, measure, report

MESSAGES = 1_000_000
SIZE = 100
MAX_IN_FLIGHT = 2500
LEAST_RATIO = 0.2
"""Of the bare socket's rate: far below what is usual, for machines that do other work meanwhile."""


@pytest.mark.timeout(180)
def test_a_million_messages_each_once(capsys: pytest.CaptureFixture[str]) -> None:
    with filled_nsqd(MESSAGES, SIZE) as nsqd:
        rates = {reader: measure(reader, nsqd, MESSAGES, MAX_IN_FLIGHT) for reader in READERS}
    with capsys.disabled():
        print(f"\n{report(list(rates.values()))}")  # noqa: T201 - for the log of CI
    for rate in rates.values():
        assert rate.messages == rate.distinct == MESSAGES, rate
        assert rate.unanswered == 0, rate
    for reader in ("asyncio", "trio"):
        assert rates[reader].per_second >= LEAST_RATIO * rates["bare-socket"].per_second
