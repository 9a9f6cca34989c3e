"""A decoder of clients' commands, which refuses what nsqd 1.3.0 refuses, in the same words.

The checks of each method come in nsqd's order, because the first that fails decides the error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from dataclasses import dataclass

from ..errors import ServerError
from ..names import is_valid_name
from .client_commands import (
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
from .frames import MAGIC_V2, MESSAGE_ID_LENGTH
from .receive_buffer import EndOfInput, Reading, ReceiveBuffer
from .server_session import ServerSession, ServerState
from .session import Command

_MAX_LINE = 16 * 1024
"""The size of nsqd's read buffer: a line that does not fit, line feed included, ends the connection."""

_FIN = re.compile(rb"FIN ([0-9A-Za-z]{%d})\n" % MESSAGE_ID_LENGTH)
"""The ids that nsqd makes are alphanumeric."""

_FINS = re.compile(rb"(?:%b)+" % _FIN.pattern)


class CommandDecoder:
    """Turns received bytes into commands, however the bytes are split.

    The decoder pauses after each IDENTIFY and AUTH until `resume` is called. The bytes after an IDENTIFY may
    belong to a layer that it negotiated, such as TLS; `take_rest` returns them. After an AUTH, the server may
    have to wait for its auth server.

    :param tls_required: whether commands other than IDENTIFY are refused until ``session`` says otherwise
    :ivar session: the state of the connection after the commands decoded so far
    """

    def __init__(self, limits: Limits, *, tls_required: bool = False) -> None:
        self.session: ServerSession = ServerSession(tls_required=tls_required)
        self._limits = limits
        self._buffer = ReceiveBuffer()
        self._commands: list[ClientCommand] = []
        self._started = False
        self._paused = False
        self._finished = False
        self._steps = self._decode()
        self._needed = next(self._steps)
        self._parsers: dict[bytes, Callable[[list[bytes]], ClientCommand]] = {
            b"FIN": self._fin,
            b"RDY": self._rdy,
            b"REQ": self._req,
            b"TOUCH": self._touch,
            b"SUB": self._sub,
            b"CLS": self._cls,
            b"NOP": self._nop,
        }
        self._readers: dict[bytes, Callable[[list[bytes]], Reading[ClientCommand]]] = {
            b"PUB": self._pub,
            b"MPUB": self._mpub,
            b"DPUB": self._dpub,
            b"IDENTIFY": self._identify,
            b"AUTH": self._auth,
        }

    @property
    def started(self) -> bool:
        """Whether the client has announced protocol V2."""
        return self._started

    def feed(self, data: bytes) -> list[ClientCommand]:
        """Decode the commands that ``data`` completes; nothing comes after `Invalid` or `LineTooLong`."""
        self._buffer.feed(data)
        return self._advance()

    def end(self) -> list[ClientCommand]:
        """Note that the client sends no more, so that an incomplete body is `Invalid`."""
        self._buffer.end()
        return self._advance()

    def resume(self) -> list[ClientCommand]:
        """Decode what was received after an IDENTIFY or AUTH, up to the next one."""
        self._paused = False
        return self._advance()

    def take_rest(self) -> bytes:
        """Take the bytes after an IDENTIFY, undecoded."""
        self._buffer.join()
        rest = self._buffer.data[self._buffer.position :]
        self._buffer.position = len(self._buffer.data)
        return rest

    def _advance(self) -> list[ClientCommand]:
        buffer = self._buffer
        while not (self._finished or self._paused) and (buffer.available >= self._needed or buffer.ended):
            buffer.join()
            try:
                self._needed = next(self._steps)
            except StopIteration:
                self._finished = True
        commands, self._commands = self._commands, []
        return commands

    def _decode(self) -> Reading[None]:
        buffer = self._buffer
        session = self.session
        try:
            if (yield from buffer.exactly(len(MAGIC_V2))) != MAGIC_V2:
                raise ServerError("E_BAD_PROTOCOL")
            self._started = True
            while True:
                self._decode_fins()
                line = yield from buffer.line(_MAX_LINE)
                if line is None:
                    self._commands.append(LineTooLong())
                    return
                params = line.removesuffix(b"\r").split(b" ")
                name = params[0]
                if session.tls_required and name != b"IDENTIFY":
                    raise invalid(f"cannot {text(name)} in current state (TLS required)")
                if name in self._parsers:
                    self._commands.append(self._parsers[name](params))
                elif name in self._readers:
                    # Not in one expression: `_advance` replaces the list while this waits.
                    command = yield from self._readers[name](params)
                    self._commands.append(command)
                    if self._paused:
                        yield 0
                else:
                    raise invalid(f"invalid command {text(name)}")
        except ServerError as error:
            self._commands.append(Invalid(error))
        except EndOfInput:
            return

    def _decode_fins(self) -> None:
        """Decode the FINs at the front of the buffer, often thousands; leave unusual ones to `_fin`."""
        if self.session.state is ServerState.INIT:
            return
        buffer = self._buffer
        if (fins := _FINS.match(buffer.data, buffer.position)) is not None:
            self._commands.append(Fin(_FIN.findall(buffer.data, *fins.span())))
            buffer.position = fins.end()

    # Commands of one line.

    def _fin(self, params: list[bytes]) -> Fin:
        self.session.receive(Command.FIN)
        if len(params) < 2:
            raise invalid("FIN insufficient number of params")
        return Fin([message_id(params[1])])

    def _touch(self, params: list[bytes]) -> Touch:
        self.session.receive(Command.TOUCH)
        if len(params) < 2:
            raise invalid("TOUCH insufficient number of params")
        return Touch(message_id(params[1]))

    def _req(self, params: list[bytes]) -> Req:
        self.session.receive(Command.REQ)
        if len(params) < 3:
            raise invalid("REQ insufficient number of params")
        wire_id = message_id(params[1])
        return Req(wire_id, milliseconds(number("REQ could not parse timeout", params[2])))

    def _rdy(self, params: list[bytes]) -> Rdy | Nop:
        self.session.receive(Command.RDY)
        if self.session.state is ServerState.CLOSING:
            return Nop()
        count = 1
        if len(params) > 1:
            count = int64(number("RDY could not parse count", params[1]))
        if not 0 <= count <= self._limits.max_rdy_count:
            raise invalid(f"RDY count {count} out of range 0-{self._limits.max_rdy_count}")
        return Rdy(count)

    def _sub(self, params: list[bytes]) -> Sub:
        self.session.receive(Command.SUB)
        if len(params) < 3:
            raise invalid("SUB insufficient number of parameters")
        topic = topic_name("SUB", params[1])
        return Sub(topic, channel_name("SUB", params[2]))

    def _cls(self, _params: list[bytes]) -> Cls:
        self.session.receive(Command.CLS)
        return Cls()

    def _nop(self, _params: list[bytes]) -> Nop:
        self.session.receive(Command.NOP)
        return Nop()

    # Commands with a body.

    def _identify(self, _params: list[bytes]) -> Reading[Identify]:
        self.session.receive(Command.IDENTIFY)
        payload = yield from self._body("IDENTIFY")
        self._paused = True
        return Identify(payload)

    def _auth(self, params: list[bytes]) -> Reading[Auth]:
        self.session.receive(Command.AUTH)
        if len(params) != 1:
            raise invalid("AUTH invalid number of parameters")
        secret = yield from self._body("AUTH")
        self._paused = True
        return Auth(secret)

    def _pub(self, params: list[bytes]) -> Reading[Pub]:
        if len(params) < 2:
            raise invalid("PUB insufficient number of parameters")
        topic = topic_name("PUB", params[1])
        return Pub(topic, (yield from self._message_body("PUB")))

    def _dpub(self, params: list[bytes]) -> Reading[Dpub]:
        if len(params) < 3:
            raise invalid("DPUB insufficient number of parameters")
        topic = topic_name("DPUB", params[1])
        delay = number("DPUB could not parse timeout", params[2])
        defer_ms = milliseconds(delay)
        if not 0 <= defer_ms <= self._limits.max_defer_ms:
            raise invalid(f"DPUB timeout {delay} out of range 0-{self._limits.max_defer_ms}")
        return Dpub(topic, defer_ms, (yield from self._message_body("DPUB")))

    def _mpub(self, params: list[bytes]) -> Reading[Mpub]:
        if len(params) < 2:
            raise invalid("MPUB insufficient number of parameters")
        # In this one error nsqd writes the code twice.
        topic = topic_name("E_BAD_TOPIC MPUB", params[1])
        self._commands.append(MpubStart(topic))
        yield from self._size("MPUB", "body", "E_BAD_BODY", self._limits.max_body_size)
        # nsqd does not compare that size with the sizes of the bodies.
        return Mpub(topic, (yield from read_bodies(self._buffer, self._limits)))

    def _body(self, command: str) -> Reading[bytes]:
        return self._sized(command, "body", "E_BAD_BODY", self._limits.max_body_size)

    def _message_body(self, command: str) -> Reading[bytes]:
        return self._sized(command, "message body", "E_BAD_MESSAGE", self._limits.max_msg_size)

    def _sized(self, command: str, what: str, code: str, limit: int) -> Reading[bytes]:
        size = yield from self._size(command, what, code, limit)
        try:
            return (yield from self._buffer.exactly(size))
        except EndOfInput:
            raise ServerError(code, f"{command} failed to read {what}") from None

    def _size(self, command: str, what: str, code: str, limit: int) -> Reading[int]:
        try:
            size = yield from self._buffer.size()
        except EndOfInput:
            raise ServerError(code, f"{command} failed to read {what} size") from None
        if size <= 0:
            raise ServerError(code, f"{command} invalid {what} size {size}")
        if size > limit:
            raise ServerError(code, f"{command} {what.split(maxsplit=1)[0]} too big {size} > {limit}")
        return size


_NANOSECONDS = 1_000_000
"""Nanoseconds in a millisecond."""


def invalid(detail: str) -> ServerError:
    """Return an ``E_INVALID`` with ``detail``."""
    return ServerError("E_INVALID", detail)


def topic_name(command: str, name: bytes) -> str:
    """Return the name of a topic.

    :raises ServerError: ``E_BAD_TOPIC``, if it is not valid
    """
    return _name("topic", "E_BAD_TOPIC", command, name)


def channel_name(command: str, name: bytes) -> str:
    """Return the name of a channel.

    :raises ServerError: ``E_BAD_CHANNEL``, if it is not valid
    """
    return _name("channel", "E_BAD_CHANNEL", command, name)


def _name(kind: str, code: str, command: str, name: bytes) -> str:
    decoded = name.decode("latin-1")
    if not is_valid_name(decoded):
        raise ServerError(code, f"{command} {kind} name {quote(name)} is not valid")
    return decoded


def message_id(param: bytes) -> bytes:
    """Return the id of a message.

    :raises ServerError: ``E_INVALID``, if it does not have 16 bytes
    """
    if len(param) != MESSAGE_ID_LENGTH:
        raise invalid("invalid message ID")
    return param


def number(problem: str, param: bytes) -> int:
    """Return a decimal number, wrapped around into 64 bits.

    :param problem: begins the error, such as ``RDY could not parse count``
    :raises ServerError: ``E_INVALID``, if it is not a number
    """
    value = parse_uint64(param)
    if value is None:
        raise invalid(f"{problem} {text(param)}")
    return value


def milliseconds(value: int) -> int:
    """Return ``value`` milliseconds as nsqd stores them.

    nsqd keeps durations as signed nanoseconds. Too large a number wraps around, often to a negative one.
    """
    return int64(value * _NANOSECONDS) // _NANOSECONDS


def text(param: bytes) -> str:
    """Return a parameter as text for an error; it may be any bytes.

    nsqd sends them back unchanged, and `encode_error` turns the text into the same bytes.
    """
    return param.decode("utf-8", "surrogateescape")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """nsqd's limits for clients: sizes are in bytes, ``max_defer_ms`` in milliseconds."""

    max_msg_size: int = 1024 * 1024
    max_body_size: int = 5 * 1024 * 1024
    max_rdy_count: int = 2500
    max_defer_ms: int = 3_600_000


_PART = 1 << 16
"""Bytes of a body that are decoded in one turn, or as many as the next message has."""


def decode_bodies(payload: bytes, limits: Limits) -> Generator[None, None, list[bytes]]:
    """Decode the messages of a binary ``/mpub``, in the format of ``MPUB``; yield between parts of it.

    :raises ServerError: for messages that ``MPUB`` would refuse
    """
    buffer = ReceiveBuffer()
    steps = read_bodies(buffer, limits)
    position = 0
    while True:
        try:
            wanted = next(steps)
        except StopIteration as done:
            bodies: list[bytes] = done.value
            return bodies
        if position:
            yield
        end = position + max(wanted, _PART)
        buffer.feed(payload[position:end])
        buffer.join()
        position = end
        if end >= len(payload):
            buffer.end()


def read_bodies(buffer: ReceiveBuffer, limits: Limits) -> Reading[list[bytes]]:
    """Read the messages one by one, and check each as soon as its size has arrived.

    :raises ServerError: in nsqd's words, for messages that nsqd refuses
    """
    try:
        count = yield from buffer.size()
    except EndOfInput:
        raise ServerError("E_BAD_BODY", "MPUB failed to read message count") from None
    # The most that fit: the count has 4 bytes, and each message 4 bytes of size and at least 1 of body.
    if not 0 < count <= (limits.max_body_size - 4) // 5:
        raise ServerError("E_BAD_BODY", f"MPUB invalid message count {count}")
    bodies: list[bytes] = []
    for index in range(count):
        try:
            size = yield from buffer.size()
        except EndOfInput:
            raise ServerError("E_BAD_MESSAGE", f"MPUB failed to read message({index}) body size") from None
        if size <= 0:
            raise ServerError("E_BAD_MESSAGE", f"MPUB invalid message({index}) body size {size}")
        if size > limits.max_msg_size:
            raise ServerError("E_BAD_MESSAGE", f"MPUB message too big {size} > {limits.max_msg_size}")
        try:
            bodies.append((yield from buffer.exactly(size)))
        except EndOfInput:
            raise ServerError("E_BAD_MESSAGE", "MPUB failed to read message body") from None
    return bodies


_ESCAPES = {
    "\a": r"\a",
    "\b": r"\b",
    "\f": r"\f",
    "\n": r"\n",
    "\r": r"\r",
    "\t": r"\t",
    "\v": r"\v",
    '"': r"\"",
    "\\": r"\\",
}
_MASK = (1 << 64) - 1
_SIGN = 1 << 63
_SIGNIFICANT_DIGITS = 64  # 10**64 is a multiple of 2**64: earlier digits change nothing


def quote(text: bytes) -> str:
    """Return ``text`` in double quotes, as Go's ``%q`` writes a string."""
    return '"' + "".join(map(_quoted, text.decode("utf-8", "surrogateescape"))) + '"'


def _quoted(char: str) -> str:
    code = ord(char)
    if char in _ESCAPES:
        return _ESCAPES[char]
    if char.isprintable():
        return char
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8, as surrogateescape keeps it
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def parse_uint64(digits: bytes) -> int | None:
    """Parse a decimal number as nsqd does: "" is 0, and large numbers wrap around. None for anything else."""
    if not digits:
        return 0
    if not digits.isdigit():
        return None
    return int(digits[-_SIGNIFICANT_DIGITS:]) & _MASK


def int64(value: int) -> int:
    """Wrap ``value`` around into a signed 64-bit integer."""
    return (value + _SIGN & _MASK) - _SIGN
