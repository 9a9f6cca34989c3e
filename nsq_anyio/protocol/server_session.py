"""nsqd's side of one connection: the legal commands of each state, and the encoding of errors."""

from __future__ import annotations

from enum import IntEnum

from ..errors import ServerError
from .frames import FRAME_ERROR, encode_frame
from .session import Command


class ServerState(IntEnum):
    """The state of a connection, with the numbers of ``state`` in nsqd's statistics."""

    INIT = 0
    SUBSCRIBED = 3
    CLOSING = 4


_ALWAYS = frozenset(ServerState)
_BEFORE_SUB = frozenset({ServerState.INIT})
_AFTER_SUB = frozenset({ServerState.SUBSCRIBED, ServerState.CLOSING})

# nsqd does not require an IDENTIFY, and accepts several, although clients should send one.
_LEGAL: dict[Command, frozenset[ServerState]] = {
    Command.IDENTIFY: _BEFORE_SUB,
    Command.AUTH: _BEFORE_SUB,
    Command.SUB: _BEFORE_SUB,
    Command.PUB: _ALWAYS,
    Command.MPUB: _ALWAYS,
    Command.DPUB: _ALWAYS,
    Command.RDY: _AFTER_SUB,
    Command.FIN: _AFTER_SUB,
    Command.REQ: _AFTER_SUB,
    Command.TOUCH: _AFTER_SUB,
    Command.CLS: frozenset({ServerState.SUBSCRIBED}),
    Command.NOP: _ALWAYS,
}

_NEXT = {Command.SUB: ServerState.SUBSCRIBED, Command.CLS: ServerState.CLOSING}


class ServerSession:
    """The state of one connection, advanced by each command as it is decoded.

    The state advances before the command is executed. That is safe: a command that changes the state either
    succeeds, or its error ends the connection.

    :ivar tls_required: whether the client must negotiate TLS before anything else; set it to False once TLS
        runs
    """

    __slots__ = ("state", "tls_required")

    def __init__(self, *, tls_required: bool = False) -> None:
        self.state: ServerState = ServerState.INIT
        self.tls_required: bool = tls_required

    def receive(self, command: Command) -> None:
        """Note that ``command`` was received.

        :raises ServerError: if it is not legal in this state
        """
        if self.state not in _LEGAL[command]:
            raise ServerError("E_INVALID", f"cannot {command.value} in current state")
        self.state = _NEXT.get(command, self.state)


def encode_error(error: ServerError) -> bytes:
    """Encode ``error`` as an error frame: its code, and its detail if it has one.

    Surrogates in the detail stand for bytes of the client that are not UTF-8. nsqd returns them unchanged.
    """
    text = f"{error.code} {error.detail}" if error.detail else error.code
    return encode_frame(FRAME_ERROR, text.encode("utf-8", "surrogateescape"))
