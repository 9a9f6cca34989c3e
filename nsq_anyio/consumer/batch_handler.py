"""A handler that takes several messages at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from ..checks import check_integer, check_seconds
from ..errors import InvalidOption
from .batch import Batch
from .handler_check import is_async_handler
from .rate import RateLimit


@dataclass(frozen=True, slots=True)
class BatchHandler:
    """A handler of batches, for `Consumer.run`, `serve` and ``nsq-anyio run``.

    ::

        await nsq.serve(nsq.BatchHandler(save, max_size=500), "clicks", "archive", nsqd="127.0.0.1:4150")

    The unanswered messages of the batch are finished when the function returns, and requeued when it raises,
    as those of a single message. The function may answer messages of the batch itself. Batches end as those
    of `Consumer.batches`: a message that another failure would give up comes alone. An async function is
    cancelled when the first unanswered message of its batch times out.

    :param function: an async or plain function of one `Batch`; a plain one is called in a thread
    :param max_size: the most messages in a batch, 1 or more
    :param max_wait: seconds to wait for more messages after the first one, 0 or more; default 1
    :raises InvalidOption: if a value is out of range, or the function cannot be called
    """

    function: Callable[[Batch], Awaitable[object] | object]
    max_size: int
    max_wait: float = 1.0

    def __post_init__(self) -> None:
        is_async_handler(self.function, "batch")
        check_integer("max_size", self.max_size, 1)
        check_seconds("max_wait", self.max_wait, 0)


def check_handler(handler: object, max_per_second: float | RateLimit | None = None) -> None:
    """Check a handler before its first message.

    :raises InvalidOption: if it cannot be called, or not with one message; if it is a generator function; if
        it takes batches, which no rate limits
    """
    if not isinstance(handler, BatchHandler):
        is_async_handler(handler)
    elif max_per_second is not None:
        raise InvalidOption(
            f"max_per_second={max_per_second!r} is not valid with a BatchHandler: it limits handlers of "
            "single messages"
        )
