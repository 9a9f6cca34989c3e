"""The setup of a consumer: the objects that its parts share."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ..connection.flow import LoopWatch
from ..events import Emitter
from ..options import ConnectionOptions, ConsumerOptions
from .backoff_timer import BackoffTimer
from .inbox import Inbox
from .keep_alive import Touching
from .message import GivesUp, MakeMessage, Message

if TYPE_CHECKING:
    from .claims import Claims


class Setup(NamedTuple):  # quicker to import than a dataclass
    """Made by `Consumer`, once for all its parts.

    :ivar fail: called with the error that ends the consumer
    :ivar redistribute: called when RDY counts may have to change: slots came free, or an idle connection
        brings messages
    :ivar giving_up: asked before a failed message is answered
    :ivar touching: touches messages that are kept alive
    :ivar claims: which messages to handle, if the consumer deduplicates
    """

    topic: str
    channel: str
    options: ConsumerOptions
    connection: ConnectionOptions
    emit: Emitter
    fail: Callable[[BaseException], None]
    inbox: Inbox
    backoff: BackoffTimer
    redistribute: Callable[[], None]
    make_message: MakeMessage
    giving_up: GivesUp[Message]
    touching: Touching
    loop_watch: LoopWatch
    claims: Claims | None
