"""Middleware that writes down how it is entered and left."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import anyio


class Notes(list[str]):
    """What happened, in order: ``+a`` when ``a`` is entered, ``-a finished`` when it is left."""

    def __init__(self) -> None:
        super().__init__()
        self.subjects: list[Any] = []

    def middleware(
        self,
        name: str,
        *,
        cleanup: float = 0,
        enter: BaseException | None = None,
        leave: BaseException | None = None,
        suppress: bool = False,
    ) -> Callable[[Any], AbstractAsyncContextManager[object]]:
        """A middleware that raises, suppresses or sleeps as told."""

        @asynccontextmanager
        async def middleware(subject: Any) -> AsyncGenerator[None]:
            assert subject.outcome is None
            self.append(f"+{name}")
            self.subjects.append(subject)
            if enter is not None:
                raise enter
            try:
                yield
            except BaseException:
                if not suppress:
                    raise
            finally:
                self.append(f"-{name} {subject.outcome}")
                if cleanup:
                    await anyio.sleep(cleanup)
                    self.append(f"{name} is clean")
                if leave is not None:
                    raise leave

        return middleware
