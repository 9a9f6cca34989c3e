"""The choice of codec: the compiled nsq-anyio-codec where it is installed, else the one in Python.

Both do the same. `frames` and `mpub_encoding` are the reference.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Protocol, TypeAlias, TypeVar

from ..errors import InvalidOption
from . import mpub_encoding
from .frames import Frame, FrameDecoder, refusal
from .frames import message_offsets as _message_offsets

SWITCH = "NSQ_ANYIO_CODEC"
"""The name of an environment variable: ``python`` avoids the compiled codec, ``compiled`` insists on it."""

INTERFACE = 3
"""The ``INTERFACE`` of compatible codecs. A change of the interface raises the number in both packages."""

SourceT = TypeVar("SourceT")
MessageT = TypeVar("MessageT")
SourceT_contra = TypeVar("SourceT_contra", contravariant=True)

_REMEDY = "pip install --upgrade 'nsq-anyio[codec]'"


class Decoder(Protocol[SourceT_contra, MessageT]):
    """A `FrameDecoder`, compiled or not."""

    @property
    def buffered(self) -> int: ...

    @property
    def missing(self) -> int: ...

    def feed(self, data: bytes, source: SourceT_contra) -> tuple[list[MessageT], list[Frame]]: ...


class MakeDecoder(Protocol):
    """Makes a decoder, with the parameters of `FrameDecoder`."""

    def __call__(
        self, make_message: Callable[[SourceT, int, int, bytes, bytes], MessageT], /, *, max_frame_size: int
    ) -> Decoder[SourceT, MessageT]: ...


PlainSize: TypeAlias = Callable[[Sequence[object], int], int | None]
EncodeBodies: TypeAlias = Callable[[Sequence[bytes]], bytes]
MessageOffsets: TypeAlias = Callable[[bytes, int, int], bytes]


@dataclass(frozen=True, slots=True)
class Codec:
    """The functions that exist compiled and in Python.

    :ivar frame_decoder: makes the decoder of a connection
    :ivar plain_size: `mpub_encoding.plain_size`, or its compiled twin
    :ivar encode_bodies: `mpub_encoding.encode_bodies`, or its compiled twin
    :ivar message_offsets: `frames.message_offsets`, or its compiled twin
    """

    frame_decoder: MakeDecoder
    plain_size: PlainSize
    encode_bodies: EncodeBodies
    message_offsets: MessageOffsets


_IN_PYTHON = Codec(FrameDecoder, mpub_encoding.plain_size, mpub_encoding.encode_bodies, _message_offsets)


def chosen(switch: str) -> Codec:
    """Return the codec that the environment variable asks for.

    An installed codec that cannot be used causes a `RuntimeWarning`.

    :param switch: ``python``, ``compiled``, or empty for the compiled one where it is installed
    :raises ImportError: if ``compiled`` is wanted and cannot be used
    :raises InvalidOption: for any other value
    """
    if switch not in {"", "python", "compiled"}:
        raise InvalidOption(f"{SWITCH}={switch!r} is not valid: use python or compiled")
    if switch == "python":
        return _IN_PYTHON
    try:
        codec = _imported()
    except ImportError as error:
        if switch == "compiled":
            raise ImportError(f"{SWITCH}=compiled, but {error}: {_REMEDY}", name=error.name) from error
        if not isinstance(error, ModuleNotFoundError):
            warnings.warn(f"the codec in Python is used: {error}: {_REMEDY}", RuntimeWarning, stacklevel=2)
        return _IN_PYTHON
    return _with(codec)


def _imported() -> ModuleType:
    """Import the codec.

    :raises ModuleNotFoundError: if it is not installed
    :raises ImportError: if it is installed, but does not fit or cannot be loaded
    """
    try:
        import nsq_anyio_codec as codec  # noqa: PLC0415 - an extra
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and error.name == "nsq_anyio_codec":
            raise ModuleNotFoundError("nsq-anyio-codec is not installed", name=error.name) from error
        raise ImportError(f"nsq-anyio-codec cannot be loaded ({error})", name=error.name) from error
    found = getattr(codec, "INTERFACE", None)
    if found != INTERFACE:
        raise ImportError(f"this nsq-anyio-codec does not fit: its interface is {found}, not {INTERFACE}")
    return codec


def _with(codec: ModuleType) -> Codec:
    compiled = codec.FrameDecoder

    def compiled_decoder(
        make_message: Callable[[SourceT, int, int, bytes, bytes], MessageT], /, *, max_frame_size: int
    ) -> Decoder[SourceT, MessageT]:
        decoder: Decoder[SourceT, MessageT] = compiled(make_message, max_frame_size, refusal)
        return decoder

    return Codec(compiled_decoder, codec.plain_size, codec.encode_bodies, codec.message_offsets)


_codec = chosen(os.environ.get(SWITCH, ""))

frame_decoder: MakeDecoder = _codec.frame_decoder
"""Makes the decoder of each connection."""

plain_size: PlainSize = _codec.plain_size
encode_bodies: EncodeBodies = _codec.encode_bodies
message_offsets: MessageOffsets = _codec.message_offsets

accelerated: bool = _codec is not _IN_PYTHON
"""Whether the compiled codec is used."""
