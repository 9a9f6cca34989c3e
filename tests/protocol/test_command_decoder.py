"""The command decoder; `tests/embedded/test_nsqd_like_real.py` compares the texts with the real nsqd's."""

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsq_anyio.errors import ServerError
from nsq_anyio.protocol import commands
from nsq_anyio.protocol.client_commands import (
    Auth,
    ClientCommand,
    Cls,
    Dpub,
    Fin,
    Identify,
    Invalid,
    LineTooLong,
    Mpub,
    MpubStart,
    Nop,
    Pub,
    Rdy,
    Req,
    Sub,
    Touch,
)
from nsq_anyio.protocol.codec import encode_bodies
from nsq_anyio.protocol.command_decoder import CommandDecoder, Limits, decode_bodies
from nsq_anyio.protocol.frames import MAGIC_V2
from nsq_anyio.protocol.server_session import ServerState

from .fins import one_by_one

ID = b"0123456789abcdef"
SUB = commands.sub("t", "c")

BEFORE_SUB: list[tuple[bytes, ClientCommand]] = [
    (commands.identify(b"{}"), Identify(b"{}")),
    (commands.auth(b"secret"), Auth(b"secret")),
    (commands.pub("t", b"body\n"), Pub("t", b"body\n")),
    (b"MPUB t\n", MpubStart("t")),
    (commands.mpub("t", [b"a", b"bc"])[len(b"MPUB t\n") :], Mpub("t", [b"a", b"bc"])),
    (commands.dpub("t", 5, b"body"), Dpub("t", 5, b"body")),
    (commands.NOP, Nop()),
    (SUB, Sub("t", "c")),
]
AFTER_SUB: list[tuple[bytes, ClientCommand]] = [
    (commands.rdy(0), Rdy(0)),
    (commands.rdy(2500), Rdy(2500)),
    (commands.fin(ID), Fin([ID])),
    (commands.fin(ID[::-1]), Fin([ID[::-1]])),
    (b"FIN ----------------\n", Fin([b"-" * 16])),
    (b"FIN %b\r\n" % ID, Fin([ID])),
    (commands.req(ID, 7), Req(ID, 7)),
    (commands.touch(ID), Touch(ID)),
    (commands.pub("t", b"FIN 0123456789abcdef\n"), Pub("t", b"FIN 0123456789abcdef\n")),
    (commands.fin(ID), Fin([ID])),
    (commands.NOP, Nop()),
    (commands.CLS, Cls()),
    (commands.fin(ID), Fin([ID])),
    (commands.rdy(1), Nop()),
]
ALL = [*BEFORE_SUB, *AFTER_SUB]
STREAM = MAGIC_V2 + b"".join(data for data, _ in ALL)
COMMANDS = [command for _, command in ALL]


def decode(*pieces: bytes, limits: Limits | None = None) -> list[ClientCommand]:
    decoder = CommandDecoder(limits or Limits())
    decoded: list[ClientCommand] = []
    for piece in pieces:
        some = decoder.feed(piece)
        while some:
            decoded += one_by_one(some)
            some = decoder.resume()
    return decoded


def test_fins_in_a_row_are_one_command() -> None:
    decoder = CommandDecoder(Limits())
    data = MAGIC_V2 + SUB + commands.fin(ID) * 3 + commands.rdy(1) + commands.fin(ID)
    assert decoder.feed(data) == [Sub("t", "c"), Fin([ID] * 3), Rdy(1), Fin([ID])]


def refused(data: bytes, limits: Limits | None = None) -> ServerError:
    last = decode(MAGIC_V2 + data, limits=limits)[-1]
    assert isinstance(last, Invalid)
    return last.error


def test_whole_stream() -> None:
    assert decode(STREAM) == COMMANDS


def test_byte_by_byte() -> None:
    assert decode(*(STREAM[i : i + 1] for i in range(len(STREAM)))) == COMMANDS


@given(cuts=st.lists(st.integers(0, len(STREAM)), max_size=20))
def test_cut_anywhere(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    pieces = [STREAM[start:stop] for start, stop in itertools.pairwise(edges)]
    assert decode(*pieces) == COMMANDS


def test_every_truncation_gives_a_prefix() -> None:
    ends = [len(MAGIC_V2)]
    for data, _ in ALL:
        ends.append(ends[-1] + len(data))
    for length in range(len(STREAM)):
        complete = sum(1 for end in ends[1:] if end <= length)
        assert decode(STREAM[:length]) == COMMANDS[:complete]


@given(st.binary(max_size=200))
def test_any_bytes_are_decoded_or_refused(data: bytes) -> None:
    for stream in (data, MAGIC_V2 + data, MAGIC_V2 + SUB + data):
        whole = decode(stream)
        assert decode(*(stream[i : i + 1] for i in range(len(stream)))) == whole or any(
            isinstance(command, Invalid) for command in whole
        )
        assert all(not isinstance(command, Invalid | LineTooLong) for command in whole[:-1])


def test_the_state_is_that_after_the_decoded_commands() -> None:
    decoder = CommandDecoder(Limits())
    states = [decoder.session.state]
    for data in (MAGIC_V2, SUB, commands.CLS):
        decoder.feed(data)
        states.append(decoder.session.state)
    assert states == [ServerState.INIT, ServerState.INIT, ServerState.SUBSCRIBED, ServerState.CLOSING]


def test_started_with_the_whole_magic() -> None:
    decoder = CommandDecoder(Limits())
    for byte in MAGIC_V2[:-1]:
        decoder.feed(bytes([byte]))
        assert not decoder.started
    decoder.feed(MAGIC_V2[-1:])
    assert decoder.started


def test_another_magic() -> None:
    (command,) = decode(b"GET / HTTP/1.1\r\n")
    assert isinstance(command, Invalid)
    assert (command.error.code, command.error.detail) == ("E_BAD_PROTOCOL", "")


def test_commands_before_an_error_come_first_and_nothing_after_it() -> None:
    decoder = CommandDecoder(Limits())
    first, last = decoder.feed(MAGIC_V2 + commands.NOP + b"BAD\n" + commands.NOP)
    assert first == Nop()
    assert isinstance(last, Invalid)
    assert decoder.feed(commands.NOP) == []
    assert decoder.end() == []


@pytest.mark.parametrize("command", [Identify(b"{}"), Auth(b"secret")])
def test_it_stops_behind_identify_and_auth(command: Identify | Auth) -> None:
    data = commands.identify(b"{}") if isinstance(command, Identify) else commands.auth(b"secret")
    decoder = CommandDecoder(Limits())
    assert decoder.feed(MAGIC_V2 + data + commands.NOP) == [command]
    assert decoder.feed(commands.NOP + data + commands.CLS) == []
    assert decoder.resume() == [Nop(), Nop(), command]
    (last,) = decoder.resume()
    assert isinstance(last, Invalid)
    assert decoder.resume() == []


def test_the_bytes_behind_identify_can_be_taken() -> None:
    decoder = CommandDecoder(Limits())
    assert decoder.feed(MAGIC_V2 + commands.identify(b"{}") + b"\x16\x03") == [Identify(b"{}")]
    assert decoder.feed(b"\x01\x00") == []
    assert decoder.take_rest() == b"\x16\x03\x01\x00"
    assert decoder.take_rest() == b""
    assert decoder.resume() == []
    assert decoder.feed(commands.NOP) == [Nop()]


@pytest.mark.parametrize("line", [b"NOP", b"PUB", b"SUB t c", b"AUTH", b"FIN", b"HELLO", b"", b"identify"])
def test_tls_may_be_required(line: bytes) -> None:
    decoder = CommandDecoder(Limits(), tls_required=True)
    assert decoder.feed(MAGIC_V2 + commands.identify(b"{}")) == [Identify(b"{}")]
    decoder.feed(line + b"\n")
    (command,) = decoder.resume()
    assert isinstance(command, Invalid)
    name = line.split(b" ")[0].decode()
    assert str(command.error) == f"E_INVALID cannot {name} in current state (TLS required)"


def test_once_tls_runs_all_commands_are_taken() -> None:
    decoder = CommandDecoder(Limits(), tls_required=True)
    decoder.feed(MAGIC_V2 + commands.identify(b"{}"))
    decoder.session.tls_required = False
    assert decoder.resume() == []
    assert decoder.feed(commands.NOP + SUB) == [Nop(), Sub("t", "c")]


def test_the_secret_does_not_show() -> None:
    assert "hidden" not in repr(decode(MAGIC_V2 + commands.auth(b"hidden")))


@pytest.mark.parametrize("length", [16_383, 16_384, 100_000])
def test_line_too_long(length: int) -> None:
    line = b"A" * length + b"\n"
    (command,) = decode(MAGIC_V2 + line)
    if length < 16_384:
        assert isinstance(command, Invalid)
    else:
        assert command == LineTooLong()


def test_line_too_long_is_noticed_before_it_ends() -> None:
    decoder = CommandDecoder(Limits())
    assert decoder.feed(MAGIC_V2 + b"A" * 16_383) == []
    assert decoder.feed(b"A") == [LineTooLong()]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"PUB t\n\x00\x10\x00\x01", "E_BAD_MESSAGE PUB message too big 1048577 > 1048576"),
        (b"DPUB t 0\n\x00\x10\x00\x01", "E_BAD_MESSAGE DPUB message too big 1048577 > 1048576"),
        (b"MPUB t\n\x00\x50\x00\x01", "E_BAD_BODY MPUB body too big 5242881 > 5242880"),
        (b"IDENTIFY\n\x7f\xff\xff\xff", "E_BAD_BODY IDENTIFY body too big 2147483647 > 5242880"),
        (b"MPUB t\n\x00\x00\x00\x10\x00\x10\x00\x00", "E_BAD_BODY MPUB invalid message count 1048576"),
        (
            b"MPUB t\n\x00\x00\x00\x10\x00\x00\x00\x02\x00\x00\x00\x00",
            "E_BAD_MESSAGE MPUB invalid message(0) body size 0",
        ),
    ],
)
def test_a_wrong_size_is_refused_before_the_body_comes(data: bytes, text: str) -> None:
    assert str(refused(data)) == text


def test_limits_are_applied() -> None:
    limits = Limits(max_msg_size=3, max_body_size=40, max_rdy_count=4, max_defer_ms=5)
    assert decode(
        MAGIC_V2 + commands.pub("t", b"abc") + commands.dpub("t", 5, b"abc") + SUB + commands.rdy(4),
        limits=limits,
    ) == [Pub("t", b"abc"), Dpub("t", 5, b"abc"), Sub("t", "c"), Rdy(4)]
    assert refused(commands.pub("t", b"abcd"), limits).code == "E_BAD_MESSAGE"
    assert refused(commands.mpub("t", [b"abcd"]), limits).code == "E_BAD_MESSAGE"
    assert refused(commands.identify(b" " * 41), limits).code == "E_BAD_BODY"
    assert "DPUB timeout 6 out of range 0-5" in refused(commands.dpub("t", 6, b"a"), limits).detail
    assert "RDY count 5 out of range 0-4" in refused(SUB + commands.rdy(5), limits).detail


def test_a_body_cut_short_by_the_end_is_refused() -> None:
    decoder = CommandDecoder(Limits())
    assert decoder.feed(MAGIC_V2 + b"PUB t\n\x00\x00\x00\x05abc") == []
    (command,) = decoder.end()
    assert isinstance(command, Invalid)
    assert str(command.error) == "E_BAD_MESSAGE PUB failed to read message body"


@pytest.mark.parametrize("rest", [b"", b"FIN 01234", b"  "])
def test_a_line_cut_short_by_the_end_is_forgotten(rest: bytes) -> None:
    decoder = CommandDecoder(Limits())
    assert decoder.feed(MAGIC_V2 + rest) == []
    assert decoder.end() == []


def test_bodies_of_http() -> None:
    assert decoded(encode_bodies([b"a", b"bc"])) == ([b"a", b"bc"], 1)
    with pytest.raises(ServerError, match="E_BAD_BODY MPUB failed to read message count"):
        decoded(b"")
    with pytest.raises(ServerError, match="E_BAD_MESSAGE MPUB failed to read message body"):
        decoded(encode_bodies([b"abc"])[:-1])


def test_many_bodies_of_http_are_decoded_in_parts() -> None:
    many, large = [b"a"] * 100_000, [b"b" * 300_000]
    bodies, parts = decoded(encode_bodies([*many, *large, *many]))
    assert bodies == [*many, *large, *many]
    assert 15 <= parts <= 25
    with pytest.raises(ServerError, match="E_BAD_MESSAGE MPUB failed to read message body"):
        decoded(encode_bodies(many)[:-1])


def decoded(payload: bytes) -> tuple[list[bytes], int]:
    """The bodies, and in how many parts they were decoded."""
    steps = decode_bodies(payload, Limits())
    for parts in itertools.count(1):
        try:
            next(steps)
        except StopIteration as done:
            return done.value, parts
    raise AssertionError


def test_a_large_body_in_small_pieces_takes_linear_time() -> None:
    body = bytes(4_000_000)
    data = MAGIC_V2 + commands.mpub("t", [body[:1_000_000]] * 4)
    start = time.perf_counter()
    _, command = decode(*(data[i : i + 1000] for i in range(0, len(data), 1000)))
    assert command == Mpub("t", [body[:1_000_000]] * 4)
    # 4000 pieces: joined again at each, they would copy 2 GB per message.
    assert time.perf_counter() - start < 2
