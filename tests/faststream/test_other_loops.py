"""What else FastStream could run on."""

from __future__ import annotations

import anyio
import pytest
from faststream.exceptions import IncorrectState
from faststream_nsq import NsqBroker


def test_trio_is_refused() -> None:
    broker = NsqBroker("127.0.0.1:1", logger=None)
    with pytest.raises(IncorrectState, match="asyncio"):
        anyio.run(broker.start, backend="trio")
