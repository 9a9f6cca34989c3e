"""The broker's log."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from faststream._internal.basic_types import LoggerProto
from faststream._internal.context import ContextRepo
from faststream._internal.logger import DefaultLoggerStorage, make_logger_state
from faststream._internal.logger.logging import get_broker_logger

__all__ = ["make_nsq_logger_state"]

_ID_LENGTH = 16


class _NsqParamsStorage(DefaultLoggerStorage):
    """Makes a logger with a column for topics and one for channels, each as wide as its longest name."""

    __slots__ = ("_widths",)

    def __init__(self) -> None:
        super().__init__()
        self._widths = {"topic": 5, "channel": 7}

    def register_subscriber(self, params: dict[str, Any]) -> None:
        for name, width in self._widths.items():
            self._widths[name] = max(width, len(params.get(name, "")))

    def get_logger(self, *, context: ContextRepo) -> LoggerProto:
        if (logger := self._get_logger_ref()) is None:
            columns = " | ".join(f"%({name})-{width}s" for name, width in self._widths.items())
            logger = get_broker_logger(
                name="nsq",
                default_context=dict.fromkeys(self._widths, ""),
                message_id_ln=_ID_LENGTH,
                fmt=f"%(asctime)s %(levelname)-8s - {columns} | %(message_id)-{_ID_LENGTH}s - %(message)s",
                context=context,
                log_level=self.logger_log_level,
            )
            self._logger_ref.add(logger)
        return logger


make_nsq_logger_state = partial(
    make_logger_state, log_level=logging.INFO, default_storage_cls=_NsqParamsStorage
)
"""Returns the state of a broker's log."""
