"""The client's side of one connection: the legal commands, and the pairing of answers with requests.

nsqd handles the commands of a connection strictly in order, so answers pair with requests first in,
first out. Heartbeats and the three failed-response errors are outside that order.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

from ..errors import ProtocolError, ServerError
from .error_codes import FAILED_RESPONSE_CODES, failed_message_id, parse_error
from .frames import FRAME_ERROR, HEARTBEAT, Frame

RequestT = TypeVar("RequestT")


class State(Enum):
    """The state of a connection."""

    CONNECTED = "connected"
    IDENTIFIED = "identified"
    SUBSCRIBED = "subscribed"
    CLOSING = "closing"


class Command(Enum):
    """The commands of protocol V2."""

    IDENTIFY = "IDENTIFY"
    AUTH = "AUTH"
    SUB = "SUB"
    PUB = "PUB"
    MPUB = "MPUB"
    DPUB = "DPUB"
    RDY = "RDY"
    FIN = "FIN"
    REQ = "REQ"
    TOUCH = "TOUCH"
    CLS = "CLS"
    NOP = "NOP"


# Enum.__hash__ is written in Python, and runs twice for each publish.
Command.__hash__ = object.__hash__  # type: ignore[method-assign]

_PUBLISHES = (Command.PUB, Command.MPUB, Command.DPUB)
_ANSWERED = frozenset({Command.IDENTIFY, Command.AUTH, Command.SUB, Command.CLS, *_PUBLISHES})

# The legal commands, and the state after each; nsqd closes the connection on any other (E_INVALID).
_TRANSITIONS: dict[State, dict[Command, State]] = {
    State.CONNECTED: {
        Command.IDENTIFY: State.IDENTIFIED,
        Command.NOP: State.CONNECTED,
    },
    State.IDENTIFIED: {
        Command.AUTH: State.IDENTIFIED,
        Command.SUB: State.SUBSCRIBED,
        Command.NOP: State.IDENTIFIED,
        **dict.fromkeys(_PUBLISHES, State.IDENTIFIED),
    },
    State.SUBSCRIBED: {
        Command.CLS: State.CLOSING,
        **dict.fromkeys(
            (Command.RDY, Command.FIN, Command.REQ, Command.TOUCH, Command.NOP, *_PUBLISHES), State.SUBSCRIBED
        ),
    },
    # nsqd ignores RDY here, but still takes the answers to messages that are in flight.
    State.CLOSING: dict.fromkeys(
        (Command.RDY, Command.FIN, Command.REQ, Command.TOUCH, Command.NOP, *_PUBLISHES), State.CLOSING
    ),
}


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """nsqd asks for a sign of life. Any command will do."""


class Answer(NamedTuple, Generic[RequestT]):
    """The oldest request succeeded. A named tuple, made for each publish, costs a third of a dataclass."""

    request: RequestT
    data: bytes


@dataclass(frozen=True, slots=True)
class Refusal(Generic[RequestT]):
    """nsqd refused the oldest request, or, with ``request`` None, a command that has no answer.

    nsqd closes the connection now, and has executed nothing that was sent after that command.
    """

    request: RequestT | None
    error: ServerError


@dataclass(frozen=True, slots=True)
class ResponseFailed:
    """A FIN, REQ or TOUCH came too late: its message was no longer in flight. It answers no request."""

    message_id: bytes | None
    error: ServerError


class ClientSession(Generic[RequestT]):
    """Checks the commands that are sent, and pairs received frames with requests.

    A request can be any object: the session returns it with the answer.
    """

    def __init__(self) -> None:
        self._state = State.CONNECTED
        self._legal = _TRANSITIONS[State.CONNECTED]
        self._requests: deque[tuple[Command, RequestT]] = deque()

    @property
    def state(self) -> State:
        """The state after all commands that were sent."""
        return self._state

    @property
    def waiting(self) -> int:
        """The number of requests that have no answer yet."""
        return len(self._requests)

    def sending(self, command: Command, request: RequestT | None = None) -> int:
        """Note that ``command`` is sent next; ``request`` is returned with its answer.

        :return: the number of requests that have no answer yet
        :raises ProtocolError: if the command is not legal in this state, or if it is one that nsqd
            answers and ``request`` is None
        """
        state = self._legal.get(command)
        if state is None:
            raise ProtocolError(f"{command.value} cannot be sent on a connection that is {self._state.value}")
        if command in _ANSWERED:
            if request is None:
                raise ProtocolError(f"nsqd answers {command.value}: pass a request to pair with the answer")
            self._requests.append((command, request))
        if state is not self._state:
            self._state = state
            self._legal = _TRANSITIONS[state]
        return len(self._requests)

    def received(self, frame: Frame) -> Heartbeat | Answer[RequestT] | Refusal[RequestT] | ResponseFailed:
        """Return the meaning of a response or error frame.

        :raises ProtocolError: for a response while no request waits
        """
        frame_type, data = frame
        if frame_type == FRAME_ERROR:
            return self._received_error(data)
        if data == HEARTBEAT:
            return Heartbeat()
        return Answer(self.succeeded(data), data)

    def succeeded(self, data: bytes) -> RequestT:
        """Return the oldest request, which nsqd has answered with ``data``.

        :raises ProtocolError: while no request waits
        """
        if not self._requests:
            raise ProtocolError(f"nsqd answered {data[:80]!r}, but no request was waiting")
        return self._requests.popleft()[1]

    def _received_error(self, data: bytes) -> Refusal[RequestT] | ResponseFailed:
        command = self._requests[0][0] if self._requests else None
        in_handshake = command in (Command.IDENTIFY, Command.AUTH) or (
            # E_AUTH_FAILED here: the authorization has expired since AUTH, and the auth server is away.
            command is Command.SUB and not data.startswith(b"E_AUTH_FAILED")
        )
        error = parse_error(data, handshake=in_handshake)
        if error.code in FAILED_RESPONSE_CODES:
            return ResponseFailed(failed_message_id(error), error)
        # A fatal error may also answer a RDY, FIN, REQ or TOUCH, which are not recorded. A waiting CLS may
        # get the error of such a command. That is harmless, because nsqd closes the connection either way.
        if not self._requests:
            return Refusal(None, error)
        _, request = self._requests.popleft()
        return Refusal(request, error)

    def abandon(self) -> list[RequestT]:
        """Return and forget the waiting requests, oldest first, because the connection has ended."""
        requests = [request for _, request in self._requests]
        self._requests.clear()
        return requests
