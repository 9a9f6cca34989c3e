"""Decides which operations have failed, and how spans and metrics describe the failure."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import PublishRejected, Requeue
from ...exceptions import only_error
from ...tasks import is_stray


@dataclass(frozen=True, slots=True)
class Failure:
    """How an operation failed.

    :ivar type: the value of ``error.type``: nsqd's error code, the exception's class, or the outcome
    :ivar error: the exception; None if none was raised
    """

    type: str
    error: BaseException | None = None


def failure(outcome: str | None, error: BaseException | None) -> Failure | None:
    """Return how the handling or the publish failed; None if it did not fail.

    A cancellation is not a failure, because the program wanted it. Neither is `Requeue`, by which the handler
    asks for the message again later. A message that was given up or has timed out counts as a failure.
    """
    raised = None if error is None else only_error(error)
    if raised is not None and not isinstance(raised, Requeue):
        if isinstance(raised, PublishRejected):
            return Failure(raised.code, raised)
        if isinstance(raised, Exception) or is_stray(raised):
            return Failure(_class_name(raised), raised)
    return Failure(outcome) if outcome in {"gave_up", "timed_out"} else None


def _class_name(error: BaseException) -> str:
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
