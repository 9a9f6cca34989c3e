"""Per-server results of an action."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from ..errors import HTTPError, HTTPStatusError, HTTPUnavailable
from ..http.cluster import NOT_FOUND

ServerKind = Literal["nsqlookupd", "nsqd"]

State = Literal["done", "absent", "failed"]
"""``absent``: the server does not have the topic or channel."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """One step of an action on one server.

    :ivar kind: the kind of server
    :ivar server: ``host:port`` of its HTTP API, or its URL unless that begins with ``http://``
    :ivar error: why the step failed; None if it did not
    :ivar is_question: whether the step only asked which nsqds have the topic
    """

    kind: ServerKind
    server: str
    error: HTTPError | None = None
    is_question: bool = False

    @property
    def state(self) -> State:
        """The result of the step."""
        if self.error is None:
            return "done"
        is_absent = isinstance(self.error, HTTPStatusError) and self.error.code in NOT_FOUND
        return "absent" if is_absent else "failed"

    @property
    def reason(self) -> str:
        """Why the step failed, in words; empty if it did not."""
        if self.error is None or self.state == "absent":
            return ""
        if self.is_question:
            return f"It did not say which nsqds have the topic: {self.error.reason}."
        if isinstance(self.error, HTTPUnavailable):
            return f"It did not answer, and may have done it all the same: {self.error.reason}."
        return f"{self.error.reason}."


@dataclass(frozen=True, slots=True)
class ServerResult:
    """The result of a whole action on one server.

    :ivar reasons: why it failed, as whole sentences; empty if it did not
    """

    kind: ServerKind
    server: str
    state: State
    reasons: tuple[str, ...] = ()


def by_server(steps: Iterable[StepResult]) -> tuple[ServerResult, ...]:
    """Merge the steps of an action into one result for each server, nsqlookupds first.

    A server has failed if any step failed there. Answered questions are left out.
    """
    by_server: dict[tuple[ServerKind, str], list[StepResult]] = {}
    for each in steps:
        if not (each.is_question and each.state == "done"):
            by_server.setdefault((each.kind, each.server), []).append(each)
    found = [
        ServerResult(kind, server, _worst(steps), tuple(dict.fromkeys(filter(None, map(_reason, steps)))))
        for (kind, server), steps in by_server.items()
    ]
    return tuple(sorted(found, key=lambda each: (each.kind != "nsqlookupd", each.server)))


def _worst(steps: list[StepResult]) -> State:
    states = {step.state for step in steps}
    return "failed" if "failed" in states else "done" if "done" in states else "absent"


def _reason(step: StepResult) -> str:
    return step.reason
