from collections.abc import Callable, Sequence
from typing import Generic, TypeVar, final

_SourceT = TypeVar("_SourceT")
_MessageT = TypeVar("_MessageT")

@final
class FrameDecoder(Generic[_SourceT, _MessageT]):
    def __new__(
        cls,
        make_message: Callable[[_SourceT, int, int, bytes, bytes], _MessageT],
        max_frame_size: int,
        refusal: Callable[[int, int, int], Exception | None],
    ) -> FrameDecoder[_SourceT, _MessageT]: ...
    @property
    def buffered(self) -> int: ...
    @property
    def missing(self) -> int: ...
    def feed(self, data: bytes, source: _SourceT) -> tuple[list[_MessageT], list[tuple[int, bytes]]]: ...

def plain_size(bodies: Sequence[object], max_size: int) -> int | None: ...
def encode_bodies(bodies: Sequence[bytes]) -> bytes: ...
