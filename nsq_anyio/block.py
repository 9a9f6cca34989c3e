"""What `consume` and `produce` return: something to enter with ``async with``, and to use only then."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Generic, NoReturn, TypeVar

from .errors import NotEntered

__all__ = ["Block"]

UserT = TypeVar("UserT")


class Block(AbstractAsyncContextManager[UserT], Generic[UserT]):
    """An ``async with`` block that is not entered yet.

    :param manager: what is entered
    :param kind: the class of what the block gives
    :param usage: how the block is written
    """

    def __init__(self, manager: AbstractAsyncContextManager[UserT], kind: type[UserT], usage: str) -> None:
        self._manager = manager
        self._kind = kind
        self._usage = usage

    def __repr__(self) -> str:
        return f"<{self._kind.__name__} to be entered with `{self._usage}`>"

    async def __aenter__(self) -> UserT:
        return await self._manager.__aenter__()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._manager.__aexit__(exc_type, exc, traceback)

    def __aiter__(self) -> NoReturn:
        """Say what to write."""
        raise NotEntered(f"the block is not entered: write `{self._usage}`")

    def __getattr__(self, name: str) -> NoReturn:
        """Say what to write, where the name is one of what the block gives."""
        if name.startswith("_") or not hasattr(self._kind, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise NotEntered(f"{name!r} is for use in the block, which is not entered: write `{self._usage}`")
