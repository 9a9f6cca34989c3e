"""A disk that hangs: the block ends in bounded time, and the file is closed once the disk answers."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

import nsq_anyio as nsq
from nsq_anyio.delaying import DelayedMessage, DelayFile, service

pytestmark = pytest.mark.anyio

LIMIT = 15.0


async def test_a_disk_that_hangs_holds_no_block_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "delays"
    with closing(DelayFile(path, writer=True)) as file:
        file.store([DelayedMessage("t", 0.0, b"x", "127.0.0.1:1/1")])
    hanging, recovered = threading.Event(), threading.Event()

    def hang(file: DelayFile, ids: Iterable[int]) -> None:
        with file._used():
            hanging.set()
            recovered.wait(LIMIT)

    monkeypatch.setattr(DelayFile, "delete", hang)
    monkeypatch.setattr(service, "_LONGEST_CHANGE", 0.1)
    try:
        async with nsq.embedded.nsqd() as nsqd:
            begun = anyio.current_time()
            with anyio.CancelScope() as scope:
                async with nsq.delays(path, nsqd=nsqd.tcp_address):
                    await anyio.to_thread.run_sync(hanging.wait, LIMIT)
                    begun = anyio.current_time()
                    scope.cancel()
                    await anyio.sleep_forever()
            assert anyio.current_time() - begun < 5
        with pytest.raises(nsq.DelayFileUnusable, match="another service uses it"):
            DelayFile(path, writer=True)
    finally:
        recovered.set()
    with anyio.fail_after(LIMIT):
        while True:
            try:
                DelayFile(path, writer=True).close()
                break
            except nsq.DelayFileUnusable:
                await anyio.sleep(0.01)
