from collections import deque

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from nsq_anyio.errors import PermanentRefusal, ProtocolError, ServerError
from nsq_anyio.protocol.frames import FRAME_ERROR, FRAME_RESPONSE, HEARTBEAT
from nsq_anyio.protocol.session import (
    Answer,
    ClientSession,
    Command,
    Heartbeat,
    Refusal,
    ResponseFailed,
    State,
)

CONNECTED, IDENTIFIED, SUBSCRIBED, CLOSING = State

# The whole table, by hand from nsqd's protocol_v2.go: the state after each command, None where it is refused.
# nsqd itself would take PUB before IDENTIFY; this client always identifies itself first.
AFTER: dict[Command, tuple[State | None, State | None, State | None, State | None]] = {
    # on a connection that is CONNECTED, IDENTIFIED, SUBSCRIBED, CLOSING
    Command.IDENTIFY: (IDENTIFIED, None, None, None),
    Command.AUTH: (None, IDENTIFIED, None, None),
    Command.SUB: (None, SUBSCRIBED, None, None),
    Command.PUB: (None, IDENTIFIED, SUBSCRIBED, CLOSING),
    Command.MPUB: (None, IDENTIFIED, SUBSCRIBED, CLOSING),
    Command.DPUB: (None, IDENTIFIED, SUBSCRIBED, CLOSING),
    Command.RDY: (None, None, SUBSCRIBED, CLOSING),
    Command.FIN: (None, None, SUBSCRIBED, CLOSING),
    Command.REQ: (None, None, SUBSCRIBED, CLOSING),
    Command.TOUCH: (None, None, SUBSCRIBED, CLOSING),
    Command.CLS: (None, None, CLOSING, None),
    Command.NOP: (CONNECTED, IDENTIFIED, SUBSCRIBED, CLOSING),
}
ANSWERED = {Command.IDENTIFY, Command.AUTH, Command.SUB, Command.PUB, Command.MPUB, Command.DPUB, Command.CLS}

PATHS: dict[State, list[Command]] = {
    CONNECTED: [],
    IDENTIFIED: [Command.IDENTIFY],
    SUBSCRIBED: [Command.IDENTIFY, Command.SUB],
    CLOSING: [Command.IDENTIFY, Command.SUB, Command.CLS],
}

FAILED = {
    b"E_FIN_FAILED FIN 0123456789abcdef failed ID not in flight": b"0123456789abcdef",
    b"E_REQ_FAILED REQ 0123456789abcdef failed ID not in flight": b"0123456789abcdef",
    b"E_TOUCH_FAILED TOUCH 0123456789abcdef failed client does not own message": b"0123456789abcdef",
    b"E_FIN_FAILED": None,
}


def session_in(state: State) -> ClientSession[str]:
    """A session that came to ``state``, with all its requests answered."""
    session: ClientSession[str] = ClientSession()
    for command in PATHS[state]:
        session.sending(command, command.value)
        session.received((FRAME_RESPONSE, b"OK"))
    assert (session.state, session.waiting) == (state, 0)
    return session


def test_the_table_is_whole() -> None:
    assert AFTER.keys() == set(Command)
    assert PATHS.keys() == set(State)
    assert session_in(CONNECTED).state is CONNECTED


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("command", Command)
def test_every_command_in_every_state(state: State, command: Command) -> None:
    session = session_in(state)
    after = AFTER[command][list(State).index(state)]
    if after is None:
        with pytest.raises(
            ProtocolError, match=f"^{command.value} cannot be sent on a connection that is {state.value}$"
        ):
            session.sending(command, "request")
        assert (session.state, session.waiting) == (state, 0)
    else:
        session.sending(command, "request")
        assert session.state is after
        assert session.waiting == (command in ANSWERED)


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("command", sorted(ANSWERED, key=str))
def test_what_nsqd_answers_needs_a_request(state: State, command: Command) -> None:
    session = session_in(state)
    if AFTER[command][list(State).index(state)] is None:
        return
    with pytest.raises(
        ProtocolError, match=f"^nsqd answers {command.value}: pass a request to pair with the answer$"
    ):
        session.sending(command)
    assert (session.state, session.waiting) == (state, 0)


def test_a_falsy_request_is_a_request() -> None:
    session: ClientSession[str] = ClientSession()
    session.sending(Command.IDENTIFY, "")
    assert session.received((FRAME_RESPONSE, b"OK")) == Answer("", b"OK")


def publishing(*requests: str) -> ClientSession[str]:
    session = session_in(SUBSCRIBED)
    for request in requests:
        session.sending(Command.PUB, request)
    return session


def test_answers_pair_first_in_first_out() -> None:
    session = publishing("a", "b", "c")
    assert session.waiting == 3
    assert session.received((FRAME_RESPONSE, b"OK")) == Answer("a", b"OK")
    session.sending(Command.MPUB, "d")
    session.sending(Command.CLS, "close")
    assert [session.received((FRAME_RESPONSE, data)) for data in (b"OK", b"OK", b"OK", b"CLOSE_WAIT")] == [
        Answer("b", b"OK"),
        Answer("c", b"OK"),
        Answer("d", b"OK"),
        Answer("close", b"CLOSE_WAIT"),
    ]
    assert session.waiting == 0


@pytest.mark.parametrize("command", [Command.RDY, Command.FIN, Command.REQ, Command.TOUCH, Command.NOP])
def test_what_has_no_answer_takes_no_place(command: Command) -> None:
    session = publishing("a")
    session.sending(command)
    session.sending(command, "forgotten")
    session.sending(Command.PUB, "b")
    assert session.waiting == 2
    assert session.received((FRAME_RESPONSE, b"OK")) == Answer("a", b"OK")
    assert session.received((FRAME_RESPONSE, b"OK")) == Answer("b", b"OK")


@pytest.mark.parametrize("waiting", [[], ["a", "b"]])
def test_a_heartbeat_does_not_shift_the_pairing(waiting: list[str]) -> None:
    session = publishing(*waiting)
    assert session.received((FRAME_RESPONSE, HEARTBEAT)) == Heartbeat()
    assert session.abandon() == waiting


@pytest.mark.parametrize("waiting", [[], ["a", "b"]])
@pytest.mark.parametrize("text", FAILED)
def test_a_failed_response_does_not_shift_the_pairing(text: bytes, waiting: list[str]) -> None:
    session = publishing(*waiting)
    event = session.received((FRAME_ERROR, text))
    assert isinstance(event, ResponseFailed)
    assert event.message_id == FAILED[text]
    assert str(event.error) == text.decode()
    assert event.error.fatal is False
    assert session.abandon() == waiting


def test_a_refusal_pairs_with_the_oldest() -> None:
    session = publishing("a", "b")
    event = session.received((FRAME_ERROR, b"E_BAD_MESSAGE PUB message too big 2 > 1"))
    assert isinstance(event, Refusal)
    assert event.request == "a"
    assert (event.error.code, event.error.detail) == ("E_BAD_MESSAGE", "PUB message too big 2 > 1")
    assert event.error.fatal
    assert session.abandon() == ["b"]


@pytest.mark.parametrize("text", [b"E_INVALID cannot RDY in current state", b"E_FROM_THE_FUTURE", b""])
def test_a_refusal_with_nothing_waiting_belongs_to_a_command_without_answer(text: bytes) -> None:
    event = publishing().received((FRAME_ERROR, text))
    assert isinstance(event, Refusal)
    assert event.request is None
    assert event.error.fatal


@pytest.mark.parametrize(
    ("path", "permanent"),
    [
        ([Command.IDENTIFY], True),
        ([Command.IDENTIFY, Command.AUTH], True),
        ([Command.IDENTIFY, Command.SUB], True),
        ([Command.IDENTIFY, Command.PUB], False),
        ([Command.IDENTIFY, Command.SUB, Command.CLS], False),
        ([Command.IDENTIFY, Command.SUB, Command.RDY], False),
    ],
)
def test_a_refusal_is_permanent_only_in_the_handshake(path: list[Command], permanent: bool) -> None:
    session: ClientSession[str] = ClientSession()
    for command in path[:-1]:
        session.sending(command, command.value)
        session.received((FRAME_RESPONSE, b"OK"))
    session.sending(path[-1], path[-1].value)
    event = session.received((FRAME_ERROR, b"E_UNAUTHORIZED AUTH no authorizations found"))
    assert isinstance(event, Refusal)
    assert type(event.error) is (PermanentRefusal if permanent else ServerError)


@pytest.mark.parametrize(("command", "permanent"), [(Command.AUTH, True), (Command.SUB, False)])
def test_an_auth_server_that_is_away_is_permanent_before_it_has_answered(
    command: Command, permanent: bool
) -> None:
    session: ClientSession[str] = ClientSession()
    session.sending(Command.IDENTIFY, "")
    session.received((FRAME_RESPONSE, b"OK"))
    session.sending(command, "")
    event = session.received((FRAME_ERROR, b"E_AUTH_FAILED AUTH failed"))
    assert isinstance(event, Refusal)
    assert type(event.error) is (PermanentRefusal if permanent else ServerError)


@pytest.mark.parametrize("state", State)
def test_a_response_that_answers_nothing_is_refused(state: State) -> None:
    session = session_in(state)
    with pytest.raises(ProtocolError, match=r"^nsqd answered b'OK', but no request was waiting$"):
        session.received((FRAME_RESPONSE, b"OK"))


def test_a_long_response_is_cut_in_the_error() -> None:
    with pytest.raises(ProtocolError) as caught:
        publishing().received((FRAME_RESPONSE, b"x" * 10_000))
    assert len(str(caught.value)) < 200


def test_abandon_returns_what_waits_oldest_first_and_once() -> None:
    session = publishing("a", "b", "c")
    session.received((FRAME_RESPONSE, b"OK"))
    assert session.abandon() == ["b", "c"]
    assert (session.abandon(), session.waiting) == ([], 0)


class SessionMachine(RuleBasedStateMachine):
    """Any commands and any frames, against a model of one state and one queue."""

    def __init__(self) -> None:
        super().__init__()
        self.session: ClientSession[int] = ClientSession()
        self.state = CONNECTED
        self.queue: deque[tuple[Command, int]] = deque()
        self.number = 0

    @rule(command=st.sampled_from(Command))
    def send(self, command: Command) -> None:
        self.number += 1
        after = AFTER[command][list(State).index(self.state)]
        if after is None:
            with pytest.raises(ProtocolError):
                self.session.sending(command, self.number)
            return
        self.session.sending(command, self.number)
        self.state = after
        if command in ANSWERED:
            self.queue.append((command, self.number))

    @precondition(lambda self: not self.queue)
    @rule(data=st.binary(max_size=20))
    def answer_nothing(self, data: bytes) -> None:
        if data != HEARTBEAT:
            with pytest.raises(ProtocolError):
                self.session.received((FRAME_RESPONSE, data))

    @precondition(lambda self: self.queue)
    @rule(data=st.sampled_from([b"OK", b"CLOSE_WAIT", b"{}", b"", b"E_INVALID"]))
    def answer(self, data: bytes) -> None:
        _, request = self.queue.popleft()
        assert self.session.received((FRAME_RESPONSE, data)) == Answer(request, data)

    @rule(code=st.sampled_from([b"E_INVALID", b"E_BAD_TOPIC x", b"E_PUB_FAILED", b"E_UNHEARD_OF", b"OK"]))
    def refuse(self, code: bytes) -> None:
        command, request = self.queue.popleft() if self.queue else (Command.NOP, None)
        event = self.session.received((FRAME_ERROR, code))
        assert isinstance(event, Refusal)
        assert event.request == request
        in_handshake = command in {Command.IDENTIFY, Command.AUTH, Command.SUB}
        is_permanent = in_handshake and code.split()[0] in {b"E_INVALID", b"E_BAD_TOPIC"}
        assert isinstance(event.error, PermanentRefusal) is is_permanent

    @rule()
    def beat(self) -> None:
        assert self.session.received((FRAME_RESPONSE, HEARTBEAT)) == Heartbeat()

    @rule(text=st.sampled_from(sorted(FAILED)))
    def fail_a_response(self, text: bytes) -> None:
        assert isinstance(self.session.received((FRAME_ERROR, text)), ResponseFailed)

    @rule()
    def abandon(self) -> None:
        assert self.session.abandon() == [request for _, request in self.queue]
        self.queue.clear()

    @invariant()
    def agrees_with_the_model(self) -> None:
        assert (self.session.state, self.session.waiting) == (self.state, len(self.queue))


TestSessionMachine = SessionMachine.TestCase
