"""Run the handlers of batches."""

from __future__ import annotations

from contextlib import nullcontext
from contextvars import Context
from typing import Any

import anyio

from ..events import HandlerFailed
from ..tasks import is_stray
from .batches import Batch, Batches
from .deadlines import Worker
from .handler import Workers
from .message import about


class BatchWorkers(Workers):
    """Tasks that take batches and run the handler on them.

    :param batches: where they take the batches, one task after the other
    :param keep_alive: whether to touch the messages of each batch while its handler and middleware run
    """

    def __init__(self, batches: Batches, *arguments: Any, keep_alive: bool, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._batches = batches
        self._keep_alive = keep_alive
        self._taking = (
            anyio.Lock()
        )  # or tasks would share the messages that come, in batches that are not full

    async def _take_and_handle(self, worker: Worker, context: Context) -> None:
        del context  # a new one for each batch
        try:
            async with self._taking:
                batch = await self._batches.take(self._stop)
        except StopAsyncIteration:
            return
        worker.batch = batch
        earliest = min(message.delivery.deadline for message in batch)
        if earliest < self._deadlines.next_check:
            self._deadlines.check_earlier(earliest)
        try:
            async with batch.keep_alive() if self._keep_alive else nullcontext():
                await self._handle_batch(batch)
        finally:
            worker.batch = ()

    async def _handle_batch(self, batch: Batch) -> None:
        result: object = None
        try:
            async with batch:
                try:
                    result = await self._call_checked(batch)
                except Exception as error:
                    if not self._has_refused(batch, error):
                        raise
        except BaseException as error:
            if not (isinstance(error, Exception) or is_stray(error)):
                raise
            self._emit(HandlerFailed(error=error, messages=len(batch), **about(batch[0])))
        if result is False:
            self._warn_of_false(batch[0])
