"""The block that `consume` and `produce` return, which can be used only after entering it."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

from .errors import Closed, NotEntered

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
        self._entered = False

    def __repr__(self) -> str:
        return f"<{self._kind.__name__} to be entered with `{self._usage}`>"

    async def __aenter__(self) -> UserT:
        if self._entered:
            raise Closed(
                f"this block of {self._kind.__name__!r} was entered before: make another one for each "
                f"`{self._usage}`"
            )
        self._entered = True
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

    if not TYPE_CHECKING:  # type checkers are to reject these
        __iter__ = __await__ = __enter__ = __exit__ = __aiter__

    def __getattr__(self, name: str) -> NoReturn:
        """Raise an error that shows the correct usage, if the block's object has an attribute ``name``."""
        if name.startswith("_") or not hasattr(self._kind, name):
            raise _missing(self, name)
        raise NotEntered(f"{name!r} is for use in the block, which is not entered: write `{self._usage}`")


class InBlock:
    """The base of consumers and producers, which only the end of their block closes."""

    if not TYPE_CHECKING:  # type checkers would believe that every attribute exists

        def __getattr__(self, name: str) -> NoReturn:
            raise _missing(self, name)


def _missing(found: object, name: str) -> AttributeError:
    remedy = ": the end of its `async with` block closes it" if name in {"close", "aclose"} else ""
    return AttributeError(
        f"{type(found).__name__!r} object has no attribute {name!r}{remedy}", name=name, obj=found
    )
