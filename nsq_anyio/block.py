"""The block that `consume` and `produce` return, which can be used only after entering it."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Generic, NoReturn, TypeVar

from .errors import NotEntered

__all__ = ["Block"]

UserT = TypeVar("UserT")


class Block(AbstractAsyncContextManager[UserT], Generic[UserT]):
    """An ``async with`` block before it is entered.

    :param manager: the context manager to enter
    :param kind: the class of the object that the block yields
    :param usage: an example of the block, for errors
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
        """Raise an error that shows the correct usage."""
        raise NotEntered(f"the block is not entered: write `{self._usage}`")

    def __getattr__(self, name: str) -> NoReturn:
        """Raise an error that shows the correct usage, if the block's object has an attribute ``name``."""
        if name.startswith("_") or not hasattr(self._kind, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        raise NotEntered(f"{name!r} is for use in the block, which is not entered: write `{self._usage}`")
