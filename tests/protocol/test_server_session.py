"""Which command nsqd takes when."""

import pytest

from nsq_anyio.errors import ServerError
from nsq_anyio.protocol.error_codes import parse_error
from nsq_anyio.protocol.frames import FRAME_ERROR, FrameDecoder
from nsq_anyio.protocol.server_session import ServerSession, ServerState, encode_error
from nsq_anyio.protocol.session import Command

PATHS: dict[ServerState, tuple[Command, ...]] = {
    ServerState.INIT: (),
    ServerState.SUBSCRIBED: (Command.SUB,),
    ServerState.CLOSING: (Command.SUB, Command.CLS),
}
ALWAYS = {Command.PUB, Command.MPUB, Command.DPUB, Command.NOP}
ANSWERS = {Command.RDY, Command.FIN, Command.REQ, Command.TOUCH}
LEGAL: dict[ServerState, set[Command]] = {
    ServerState.INIT: ALWAYS | {Command.IDENTIFY, Command.AUTH, Command.SUB},
    ServerState.SUBSCRIBED: ALWAYS | ANSWERS | {Command.CLS},
    ServerState.CLOSING: ALWAYS | ANSWERS,
}


@pytest.mark.parametrize("command", list(Command))
@pytest.mark.parametrize("state", list(ServerState))
def test_every_command_in_every_state(state: ServerState, command: Command) -> None:
    session = ServerSession()
    for step in PATHS[state]:
        session.receive(step)
    assert session.state is state
    if command not in LEGAL[state]:
        with pytest.raises(ServerError) as caught:
            session.receive(command)
        assert str(caught.value) == f"E_INVALID cannot {command.value} in current state"
        assert session.state is state
        return
    session.receive(command)
    expected = {Command.SUB: ServerState.SUBSCRIBED, Command.CLS: ServerState.CLOSING}.get(command, state)
    assert session.state is expected


def test_the_numbers_are_those_of_the_statistics() -> None:
    assert [int(state) for state in ServerState] == [0, 3, 4]


@pytest.mark.parametrize(
    ("error", "data"),
    [
        (ServerError("E_BAD_PROTOCOL"), b"E_BAD_PROTOCOL"),
        (ServerError("E_INVALID", "invalid command "), b"E_INVALID invalid command "),
        (ServerError("E_INVALID", "invalid command \udcff"), b"E_INVALID invalid command \xff"),
    ],
)
def test_errors_on_the_wire(error: ServerError, data: bytes) -> None:
    decoder = FrameDecoder[None, bytes](lambda _, __, ___, message_id, ____: message_id, max_frame_size=1000)
    assert decoder.feed(encode_error(error), None) == ([], [(FRAME_ERROR, data)])
    assert parse_error(data).code == error.code
