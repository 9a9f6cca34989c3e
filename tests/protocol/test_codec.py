"""Which decoder is chosen, and that the compiled one does in every respect what the one in Python does."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import textwrap
import tomllib
import tracemalloc
import weakref
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Self, cast

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import nsq_anyio as nsq
from nsq_anyio.consumer.message import Arrival, MakeMessage, Message
from nsq_anyio.consumer.wrapping import WrappedMessage, Wrapping
from nsq_anyio.errors import InvalidOption, ProtocolError
from nsq_anyio.protocol.codec import INTERFACE, SWITCH, Decoder, MakeDecoder, accelerated, chosen
from nsq_anyio.protocol.frames import FrameDecoder, encode_frame, encode_message_frame, refusal

from ..decoders import needs_codec
from ..fuzz.test_fuzz_frames import streams
from ..package_source import MODULES

ROOT = Path(__file__).parent.parent.parent
ID = b"0123456789abcdef"
LIMIT = 256
MESSAGE = encode_message_frame(1_700_000_000_123_456_789, 3, ID, b"hello")
OK = encode_frame(0, b"OK")


class Anything:
    """Stands for a delegate, which no message here asks for anything."""


def delivery() -> Arrival:
    return Arrival(cast("Any", Anything()), 1.0, 2.0, 3.0)


# Which decoder is chosen


def run(switch: str | None, code: str, path: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run ``code`` in a fresh interpreter, with the switch set, and ``path`` searched for modules first."""
    environment = {name: value for name, value in os.environ.items() if name != SWITCH}
    if switch is not None:
        environment[SWITCH] = switch
    if path is not None:
        environment["PYTHONPATH"] = os.pathsep.join([str(path), environment.get("PYTHONPATH", "")])
    command = [sys.executable, "-W", "default", "-c", textwrap.dedent(code)]
    return subprocess.run(
        command, check=False, capture_output=True, text=True, timeout=50, env=environment, cwd=ROOT
    )


def codec_that(does: str, path: Path) -> Path:
    """Put a codec into ``path`` whose import does something."""
    (path / "nsq_anyio_codec.py").write_text(does, "utf-8")
    return path


MISSING = "raise ModuleNotFoundError('no such module', name='nsq_anyio_codec')"
BROKEN = "raise ImportError('wrong ELF class')"
OLD = f"INTERFACE = {INTERFACE - 1}"
NEW = f"INTERFACE = {INTERFACE + 1}"
ACCELERATED = "import nsq_anyio as nsq; print(nsq.accelerated)"


def test_accelerated_tells_which_one_decodes() -> None:
    assert nsq.accelerated is accelerated
    assert "accelerated" in dir(nsq)
    shown = run("python", ACCELERATED)
    assert (shown.stdout, shown.stderr) == ("False\n", "")


@needs_codec
@pytest.mark.parametrize("switch", [None, "", "compiled"])
def test_an_installed_codec_is_used(switch: str | None) -> None:
    shown = run(switch, ACCELERATED)
    assert (shown.stdout, shown.stderr) == ("True\n", "")


def test_without_a_codec_nothing_is_said(tmp_path: Path) -> None:
    shown = run(None, ACCELERATED, codec_that(MISSING, tmp_path))
    assert (shown.stdout, shown.stderr) == ("False\n", "")


@pytest.mark.parametrize(
    ("codec", "reason"),
    [
        (OLD, f"this nsq-anyio-codec does not fit: its interface is {INTERFACE - 1}, not {INTERFACE}"),
        (NEW, f"this nsq-anyio-codec does not fit: its interface is {INTERFACE + 1}, not {INTERFACE}"),
        ("", f"this nsq-anyio-codec does not fit: its interface is None, not {INTERFACE}"),
        (BROKEN, "nsq-anyio-codec cannot be loaded (wrong ELF class)"),
        ("import nowhere_at_all", "nsq-anyio-codec cannot be loaded (No module named 'nowhere_at_all')"),
    ],
)
def test_a_codec_that_cannot_be_used_is_a_warning(codec: str, reason: str, tmp_path: Path) -> None:
    path = codec_that(codec, tmp_path)
    shown = run(None, ACCELERATED, path)
    assert shown.stdout == "False\n"
    remedy = "pip install --upgrade 'nsq-anyio[codec]'"
    assert f"RuntimeWarning: the codec in Python is used: {reason}: {remedy}\n" in shown.stderr
    # Whoever switches it off is not bothered, and whoever insists on it gets no other.
    assert run("python", ACCELERATED, path).stderr == ""
    refused = run("compiled", ACCELERATED, path)
    assert refused.stdout == ""
    assert refused.stderr.endswith(f"ImportError: NSQ_ANYIO_CODEC=compiled, but {reason}: {remedy}\n")


def test_who_insists_on_a_missing_codec_gets_the_remedy(tmp_path: Path) -> None:
    shown = run("compiled", "from nsq_anyio import consume", codec_that(MISSING, tmp_path))
    assert shown.stderr.endswith(
        "ImportError: NSQ_ANYIO_CODEC=compiled, but nsq-anyio-codec is not installed: "
        "pip install --upgrade 'nsq-anyio[codec]'\n"
    )


def test_another_value_of_the_switch_is_refused() -> None:
    with pytest.raises(InvalidOption, match="NSQ_ANYIO_CODEC='fast' is not valid: use python or compiled"):
        chosen("fast")


def test_the_decoder_in_python_is_used_as_it_is() -> None:
    assert chosen("python").frame_decoder is FrameDecoder


def test_one_module_chooses_the_decoder() -> None:
    """What reads from nsqd, Spark included, gets the decoder that was chosen."""
    naming = {module.name for module in MODULES if "FrameDecoder" in module.source}
    assert naming == {"nsq_anyio.protocol.frames", "nsq_anyio.protocol.codec"}


def test_the_distributions_fit() -> None:
    with (ROOT / "codec" / "pyproject.toml").open("rb") as file:
        codec = tomllib.load(file)["project"]
    with (ROOT / "pyproject.toml").open("rb") as file:
        extra = tomllib.load(file)["project"]["optional-dependencies"]["codec"]
    major, minor, _ = codec["version"].split(".")
    assert extra == [
        f"nsq-anyio-codec>={major}.{minor},<{major}.{int(minor) + 1}; implementation_name == 'cpython'"
    ]
    assert f"INTERFACE = {INTERFACE}\n" in (ROOT / "codec" / "nsq_anyio_codec" / "__init__.py").read_text(
        "utf-8"
    )


# Messages, whatever makes them


def slots_of(message: object) -> dict[str, object]:
    """What is in each slot of a message; the empty ones are left out."""
    names = [name for cls in type(message).__mro__ for name in getattr(cls, "__slots__", ())]
    return {
        name: getattr(message, name) for name in names if name != "__weakref__" and hasattr(message, name)
    }


class Slotted(Message):
    """A subclass with a slot and an ``__init__`` of its own."""

    __slots__ = ("extra",)

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.extra = "extra"


class Open(Message):
    """A subclass whose objects have a dict and can be referred to weakly."""


class Filled(Message):
    """A subclass that names the slots itself, and has some more."""

    __slots__ = ("__weakref__", "extra")
    _codec_slots = Message._codec_slots

    def __init__(self, *arguments: Any) -> None:
        raise AssertionError("the compiled codec calls no __init__")


class NoSlots(Message):
    """A subclass whose attributes are no slots."""

    _codec_slots = ("_arrival", "timestamp", "attempts", "_wire_id", "body", "id")


class OwnNew(Message):
    """A subclass that makes its objects itself."""

    _codec_slots = Message._codec_slots
    made = 0

    def __new__(cls, *arguments: Any) -> Self:  # pyright: ignore[reportInconsistentConstructor]
        del arguments
        cls.made += 1
        return super().__new__(cls)


def make_plain(source: Arrival, timestamp: int, attempts: int, message_id: bytes, body: bytes) -> Message:
    return Message(source, timestamp, attempts, message_id, body)


WRAPPING = Wrapping([], 1.0)
MAKERS: dict[str, MakeMessage] = {
    "Message": Message,
    "with middleware": WRAPPING.make_message,
    "partial": partial(Message),
    "function": make_plain,
    "slotted": Slotted,
    "open": Open,
    "no slots": NoSlots,
    "own new": OwnNew,
}


@pytest.mark.parametrize("make_message", MAKERS.values(), ids=MAKERS)
@pytest.mark.parametrize("body", [b"", b"x", b"body" * 20], ids=len)
def test_every_kind_of_message_is_made_as_in_python(
    frame_decoder: MakeDecoder, make_message: MakeMessage, body: bytes
) -> None:
    source = delivery()
    decoder = frame_decoder(make_message, max_frame_size=LIMIT)
    (first, second), frames = decoder.feed(2 * encode_message_frame(-5, 65535, ID, body) + OK, source)
    assert frames == [(0, b"OK")]
    wanted = make_message(source, -5, 65535, ID, body)
    assert type(first) is type(wanted)
    for message in (first, second):
        assert slots_of(message) == slots_of(wanted)
        assert message._arrival is source
        assert type(message._wire_id) is type(message.body) is bytes
        assert not message.responded
        assert message.payload == body  # a slot that is filled later
    assert first is not second


@needs_codec
def test_a_class_that_names_its_slots_is_filled_and_not_called() -> None:
    source = delivery()
    (message,), _ = chosen("compiled").frame_decoder(Filled, max_frame_size=LIMIT).feed(MESSAGE, source)
    assert type(message) is Filled
    assert slots_of(message) == slots_of(Message(source, 1_700_000_000_123_456_789, 3, ID, b"hello"))
    weak = weakref.ref(message)
    del message
    assert weak() is None


def test_messages_of_middleware_know_it(frame_decoder: MakeDecoder) -> None:
    (message,), _ = frame_decoder(WRAPPING.make_message, max_frame_size=LIMIT).feed(MESSAGE, delivery())
    assert isinstance(message, WrappedMessage)
    assert not message._is_wrapped


class Refused(Exception):
    pass


def test_what_making_a_message_raises_is_raised(frame_decoder: MakeDecoder) -> None:
    made: list[bytes] = []

    def refuse_second(_source: None, _timestamp: int, _attempts: int, _id: bytes, body: bytes) -> bytes:
        made.append(body)
        if len(made) == 2:
            raise Refused
        return body

    decoder = frame_decoder(refuse_second, max_frame_size=LIMIT)
    with pytest.raises(Refused):
        decoder.feed(MESSAGE * 3 + b"\x00", None)
    assert (decoder.buffered, decoder.missing) == (0, 8)
    assert decoder.feed(MESSAGE, None) == ([b"hello"], [])


def test_a_decoder_that_is_fed_while_it_decodes(frame_decoder: MakeDecoder) -> None:
    """Nobody does that; what was fed last, and not within, is what is held."""

    def feed_again(source: bool, _timestamp: int, _attempts: int, _id: bytes, body: bytes) -> bytes:
        if source:
            assert decoder.feed(OK + MESSAGE[:20], False) == ([], [(0, b"OK")])
        return body

    decoder: Decoder[bool, bytes] = frame_decoder(feed_again, max_frame_size=LIMIT)
    assert decoder.feed(MESSAGE + MESSAGE[:4], True) == ([b"hello"], [])
    assert decoder.buffered == 4
    assert decoder.feed(MESSAGE[4:], False) == ([b"hello"], [])


# The life of what goes in and comes out


def test_nothing_refers_to_the_chunk(frame_decoder: MakeDecoder) -> None:
    chunk = MESSAGE * 10 + OK + MESSAGE[:12]
    before = sys.getrefcount(chunk)
    decoder = frame_decoder(Message, max_frame_size=LIMIT)
    kept = decoder.feed(chunk, delivery())
    assert sys.getrefcount(chunk) == before
    del kept


@needs_codec
@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_a_buffer_may_be_reused_after_it_was_fed(kind: Any) -> None:
    """A stream of a user's dialer should return bytes; the compiled codec copies anything else."""
    buffer = bytearray(MESSAGE + OK + MESSAGE[:20])
    decoder = chosen("compiled").frame_decoder(Message, max_frame_size=LIMIT)
    (message,), frames = decoder.feed(kind(buffer), delivery())
    buffer[:] = bytes(len(buffer))
    assert (type(message.body), message.body, frames) == (bytes, b"hello", [(0, b"OK")])
    (message,), _ = decoder.feed(kind(bytearray(MESSAGE[20:])), delivery())
    assert (type(message.body), message.body, message._wire_id) == (bytes, b"hello", ID)


@pytest.mark.parametrize("wrong", ["text" * 20, 5, None, [1] * 80], ids=["text", "number", "None", "list"])
def test_what_is_no_buffer_is_refused(frame_decoder: MakeDecoder, wrong: Any) -> None:
    decoder = frame_decoder(Message, max_frame_size=LIMIT)
    with pytest.raises((TypeError, AttributeError)):
        decoder.feed(wrong, delivery())
    assert decoder.feed(OK, delivery()) == ([], [(0, b"OK")])


def test_a_decoder_in_a_circle_is_collected(frame_decoder: MakeDecoder) -> None:
    class Receiver:
        def __init__(self) -> None:
            self.decoder: Decoder[None, object] = frame_decoder(self.make, max_frame_size=LIMIT)

        def make(self, *message: object) -> object:
            return self, message

    receiver = Receiver()
    receiver.decoder.feed(MESSAGE + OK[:7], None)
    weak = weakref.ref(receiver)
    del receiver
    gc.collect()
    assert weak() is None


@needs_codec
def test_a_circle_through_a_message_is_collected() -> None:
    source = delivery()
    (message,), _ = chosen("compiled").frame_decoder(Filled, max_frame_size=LIMIT).feed(MESSAGE, source)
    assert gc.is_tracked(message)
    cast("Any", source).delegate = message
    weak = weakref.ref(message)
    del message, source
    gc.collect()
    assert weak() is None


def churn(frame_decoder: MakeDecoder, source: Arrival, rounds: int) -> None:
    """Decode all that there is, in pieces that end anywhere, and have errors raised, over and over."""
    stream = (
        MESSAGE * 40
        + OK
        + encode_message_frame(2**63 - 1, 40000, ID, b"x" * 200)
        + encode_frame(1, b"E_INVALID")
    )
    decoder = frame_decoder(Message, max_frame_size=LIMIT)
    called = frame_decoder(partial(Message), max_frame_size=LIMIT)
    for turn in range(rounds):
        cut = turn * 7 % len(stream)
        for one in (decoder, called):
            one.feed(stream[:cut], source)
            one.feed(stream[cut:], source)
        with pytest.raises(ProtocolError):
            frame_decoder(Message, max_frame_size=LIMIT).feed(stream + b"\xff" * 8, source)


def test_nothing_leaks(frame_decoder: MakeDecoder) -> None:
    source = delivery()
    churn(frame_decoder, source, 50)
    gc.collect()
    references = [sys.getrefcount(each) for each in (source, Message, refusal, None)]
    tracemalloc.start()
    try:
        churn(frame_decoder, source, 5)
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        churn(frame_decoder, source, 500)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # 63,000 messages: a byte of each would be 63 kB.
    assert after - before < 10_000
    now = [sys.getrefcount(each) for each in (source, Message, refusal, None)]
    assert all(abs(new - old) < 50 for new, old in zip(now, references, strict=True)), (references, now)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_stays_what_it_was(frame_decoder: MakeDecoder) -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")

    chunk = encode_message_frame(1_700_000_000_123_456_789, 1, ID, bytes(100)) * 1900
    decoder = frame_decoder(Message, max_frame_size=LIMIT)
    source = delivery()
    for _ in range(10):
        decoder.feed(chunk, source)
    before = resident()
    for _ in range(150):
        decoder.feed(chunk, source)
    # 285,000 messages of 320 bytes: 91 MB.
    assert resident() - before < 10_000_000


def test_threads_decode_at_the_same_time(frame_decoder: MakeDecoder) -> None:
    """Each with decoders of its own, and all with one, where the pieces of frames mix. Nothing must break."""
    stream = MESSAGE * 20 + OK
    source = delivery()
    shared = [frame_decoder(Message, max_frame_size=LIMIT) for _ in range(100)]

    def decode(thread: int) -> int:
        own = frame_decoder(Message, max_frame_size=LIMIT)
        count = 0
        for turn, mixed in enumerate(shared):
            cut = (turn * 7 + thread) % len(stream)
            for chunk in (stream[:cut], stream[cut:]):
                messages, _ = own.feed(chunk, source)
                assert all(message.body == b"hello" for message in messages)
                count += len(messages)
                with suppress(ProtocolError):
                    mixed.feed(chunk, source)
                assert mixed.buffered >= 0
        return count

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(decode, range(4))) == [2000] * 4


# Both decoders, with the same bytes


def outcome(decoder: Decoder[Arrival, Message], chunk: bytes, source: Arrival) -> object:
    try:
        messages, frames = decoder.feed(chunk, source)
    except ProtocolError as error:
        found: object = (type(error), str(error), vars(error))
    else:
        found = ([slots_of(message) for message in messages], frames)
    return found, decoder.buffered, decoder.missing


def check_alike(chunks: Sequence[bytes], limit: int) -> None:
    """Feed both decoders, also after errors, and compare all that can be seen after each chunk."""
    source = delivery()
    for make_message in (Message, partial(Message)):
        reference = chosen("python").frame_decoder(make_message, max_frame_size=limit)
        compiled = chosen("compiled").frame_decoder(make_message, max_frame_size=limit)
        for chunk in chunks:
            assert outcome(compiled, chunk, source) == outcome(reference, chunk, source)


# An OK is within any limit: the least that the options allow is 64 bytes.
limits = st.integers(len(OK), 300) | st.sampled_from([2**31 - 1, 2**31, 2**63, 2**64 + 300])


@needs_codec
@given(st.lists(streams, max_size=4), st.lists(st.integers(0, 400), max_size=8), limits)
@example([b"HTTP/1.1 400 Bad Request"], [2, 5], 2**31 - 1)
@example([OK, b"\0\0\0\x03\0\0\0\0", OK], [3, 11, 13], 256)
@example([(2**31 - 1).to_bytes(4) + OK[4:]], [], 2**31 - 1)  # which makes 4 bytes more than an int can count
@example([MESSAGE * 3], [], 39)
@example([MESSAGE * 3], [], 38)
@example([MESSAGE], [20], 2**200)
@example([OK], [3], len(OK))
def test_both_do_the_same(stream: list[bytes], cuts: list[int], limit: int) -> None:
    data = b"".join(stream)
    places = sorted(min(cut, len(data)) for cut in cuts)
    check_alike(
        [data[start:stop] for start, stop in zip([0, *places], [*places, len(data)], strict=True)], limit
    )
