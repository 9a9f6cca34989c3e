import pytest
from hypothesis import given
from hypothesis import strategies as st

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
from nsq_anyio.protocol.command_decoder import CommandDecoder, Limits
from nsq_anyio.protocol.frames import MAGIC_V2

from .fins import one_by_one

ID = b"0123456789abcdef"

# The bytes of the specification, written by hand.
EXAMPLES = [
    (commands.NOP, b"NOP\n"),
    (commands.CLS, b"CLS\n"),
    (commands.identify(b"{}"), b"IDENTIFY\n\x00\x00\x00\x02{}"),
    (commands.identify(b""), b"IDENTIFY\n\x00\x00\x00\x00"),
    (commands.auth(b"secret\n"), b"AUTH\n\x00\x00\x00\x07secret\n"),
    (commands.sub("clicks", "archive#ephemeral"), b"SUB clicks archive#ephemeral\n"),
    (commands.pub("clicks", b"body"), b"PUB clicks\n\x00\x00\x00\x04body"),
    (commands.pub("t#ephemeral", b"\x00\n"), b"PUB t#ephemeral\n\x00\x00\x00\x02\x00\n"),
    (commands.pub("t", b"x" * 258), b"PUB t\n\x00\x00\x01\x02" + b"x" * 258),
    (commands.dpub("clicks", 0, b"body"), b"DPUB clicks 0\n\x00\x00\x00\x04body"),
    (commands.dpub("clicks", 3_600_000, b"b"), b"DPUB clicks 3600000\n\x00\x00\x00\x01b"),
    (
        commands.mpub("clicks", [b"a", b"", b"ccc"]),
        b"".join(
            [
                b"MPUB clicks\n",
                b"\x00\x00\x00\x14",  # 20 = 4 (count) + 5 + 4 + 7
                b"\x00\x00\x00\x03",
                b"\x00\x00\x00\x01a",
                b"\x00\x00\x00\x00",
                b"\x00\x00\x00\x03ccc",
            ]
        ),
    ),
    (commands.mpub("t", []), b"MPUB t\n\x00\x00\x00\x04\x00\x00\x00\x00"),
    (commands.rdy(0), b"RDY 0\n"),
    (commands.rdy(2500), b"RDY 2500\n"),
    (commands.fin(ID), b"FIN 0123456789abcdef\n"),
    (commands.req(ID, 0), b"REQ 0123456789abcdef 0\n"),
    (commands.req(ID, 90_000), b"REQ 0123456789abcdef 90000\n"),
    (commands.touch(ID), b"TOUCH 0123456789abcdef\n"),
]


@pytest.mark.parametrize(("made", "expected"), EXAMPLES, ids=lambda value: repr(value)[:40])
def test_bytes_are_those_of_the_specification(made: bytes, expected: bytes) -> None:
    assert made == expected


def test_several_fins_are_one_after_the_other() -> None:
    others = [b"%016x" % number for number in range(3)]
    assert commands.fins(others) == b"".join(map(commands.fin, others))


def test_every_command_is_in_the_examples() -> None:
    names = {expected.split()[0].decode().lower() for _, expected in EXAMPLES if expected[:1].isalpha()}
    assert names == {name.lower() for name in commands.__all__} - {"fins"}


@pytest.mark.parametrize("name", ["é", "a\u0663"])
def test_no_other_alphabet_reaches_the_wire(name: str) -> None:
    # The API refuses such names; this is the second line.
    with pytest.raises(UnicodeEncodeError):
        commands.sub(name, "c")
    with pytest.raises(UnicodeEncodeError):
        commands.sub("t", name)
    with pytest.raises(UnicodeEncodeError):
        commands.pub(name, b"x")
    with pytest.raises(UnicodeEncodeError):
        commands.dpub(name, 0, b"x")
    with pytest.raises(UnicodeEncodeError):
        commands.mpub(name, [b"x"])


# What the server's decoder must make of each command, on its own (before SUB, and after it) and in a row.
names = st.from_regex(r"[.a-zA-Z0-9_-]{1,54}(#ephemeral)?", fullmatch=True)
ids = st.text([chr(code) for code in range(0x21, 0x7F)], min_size=16, max_size=16).map(str.encode)
bodies = st.binary(min_size=1, max_size=100)  # nsqd takes no empty message
defers = st.integers(0, Limits().max_defer_ms)

at_any_time: st.SearchStrategy[ClientCommand] = st.one_of(
    st.builds(Pub, names, bodies),
    st.builds(Mpub, names, st.lists(bodies, min_size=1, max_size=5)),
    st.builds(Dpub, names, defers, bodies),
    st.just(Nop()),
)
before_sub: st.SearchStrategy[ClientCommand] = st.one_of(
    at_any_time, st.builds(Identify, bodies), st.builds(Auth, bodies)
)
after_sub: st.SearchStrategy[ClientCommand] = st.one_of(
    at_any_time,
    st.builds(Rdy, st.integers(0, Limits().max_rdy_count)),
    st.builds(Fin, st.lists(ids, min_size=1, max_size=3)),
    st.builds(Req, ids, defers),
    st.builds(Touch, ids),
)


def encode(command: ClientCommand) -> bytes:
    match command:
        case Identify(payload):
            return commands.identify(payload)
        case Auth(secret):
            return commands.auth(secret)
        case Sub(topic, channel):
            return commands.sub(topic, channel)
        case Pub(topic, body):
            return commands.pub(topic, body)
        case Mpub(topic, many):
            return commands.mpub(topic, many)
        case Dpub(topic, defer_ms, body):
            return commands.dpub(topic, defer_ms, body)
        case Rdy(count):
            return commands.rdy(count)
        case Fin(ids):
            return b"".join(map(commands.fin, ids))
        case Req(id, delay_ms):
            return commands.req(id, delay_ms)
        case Touch(id):
            return commands.touch(id)
        case Cls():
            return commands.CLS
        case Nop():
            return commands.NOP
        case Invalid() | LineTooLong() | MpubStart():
            raise AssertionError("no client sends this")


@given(
    st.lists(before_sub, max_size=8),
    st.builds(Sub, names, names),
    st.lists(after_sub, max_size=8),
    st.sampled_from([[], [Cls()]]),
    st.data(),
)
def test_the_server_decodes_what_the_client_encodes(
    before: list[ClientCommand], sub: Sub, after: list[ClientCommand], close: list[Cls], data: st.DataObject
) -> None:
    sent = [*before, sub, *after, *close]
    stream = MAGIC_V2 + b"".join(map(encode, sent))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    decoder = CommandDecoder(Limits())
    received: list[ClientCommand] = []
    for start, stop in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        some = decoder.feed(stream[start:stop])
        while some:
            received += some
            some = decoder.resume()
    assert [each for each in one_by_one(received) if not isinstance(each, MpubStart)] == [*one_by_one(sent)]
    assert decoder.end() == []
