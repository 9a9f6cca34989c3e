"""What a store of ids is, and the option of `consume` that names one."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, runtime_checkable

from ..errors import InvalidOption, NSQError
from ..options.checks import check_seconds


class StoreFailed(NSQError):
    """A store of ids could not be used; the text names it, and says why."""

    def __init__(self, store: str, reason: str) -> None:
        super().__init__(f"{store}: {reason}")


class Claim(NamedTuple):
    """One delivery of a message that asks to be handled.

    :ivar id: what all copies of the message have in common, for one topic and channel
    :ivar holder: this delivery; no other has the same text
    :ivar message: this copy at its nsqd, which each of its deliveries has in common
    """

    id: str
    holder: str
    message: str


class Claimed(NamedTuple):
    """The answer to a claim.

    :ivar state: "new" if the message is to be handled now; "held" if another delivery holds the claim; "kept"
        if the claim is kept for the next delivery of another copy; "done" if the message was handled
    :ivar seconds: how long the claim is still held or kept; 0 otherwise
    """

    state: Literal["new", "held", "kept", "done"]
    seconds: float = 0.0


@runtime_checkable
class Store(Protocol):
    """Remembers which messages are being handled, and which were handled.

    An exception that a method raises means that the store cannot be used now. If the store is an async
    context manager, each consumer enters it for the length of its block.
    """

    async def claim(self, claim: Claim, seconds: float) -> Claimed:
        """Hold an id for ``claim.holder`` for some seconds, unless another holder has it, or it is done.

        A holder that claims again extends its time. An id that is kept for ``claim.message`` is given to
        it.
        """
        ...

    async def done(self, claim: Claim) -> None:
        """Note that a message was handled, whoever holds its id."""
        ...

    async def release(self, claim: Claim, seconds: float) -> None:
        """End a claim, and keep its id for ``claim.message`` for some seconds; 0 for not at all.

        This does nothing if ``claim.holder`` does not hold the id.
        """
        ...


@dataclass(frozen=True, slots=True)
class Deduplicate:
    """Has a consumer handle one of several copies of a message: those with the same ``nsq-id`` header.

    The consumer claims the id of each message before it hands the message out, and notes it as done before
    it finishes the message. A copy of a message that is done is finished without being handled. A copy of
    one that is being handled is requeued, which is no failure. Messages without an id are handled as
    always.

    While the store cannot be used, messages are requeued, and the consumer backs off.

    :ivar store: where the ids are; consumers of one channel must share it
    :ivar timeout: the most seconds that a call of the store may take, 0.001 or more; default 5
    :raises InvalidOption: if the store lacks a method, or the timeout is out of range
    """

    store: Store
    timeout: float = 5.0

    def __post_init__(self) -> None:
        check_seconds("timeout", self.timeout, 0.001)
        for name in ("claim", "done", "release"):
            if not inspect.iscoroutinefunction(getattr(self.store, name, None)):
                raise InvalidOption(
                    f"store={self.store!r} is not valid, it has no async `{name}`: use a store of "
                    "nsq_anyio.deduplication, or an object with its methods"
                )
