"""The programs of docs/beyond.md for delays and copies."""

from __future__ import annotations

import signal
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import httpx
import pytest

import nsq_anyio as nsq
from nsq_anyio.testing import Cluster

from .killed import NEVER, forks
from .programs import LIMIT
from .test_beyond import PROGRAMS, cluster, imported, on_each_loop

__all__ = ["cluster"]

pytestmark = pytest.mark.timeout(180)


@on_each_loop
def test_reminders_come_at_their_time_although_the_service_is_killed(
    backend: str, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, nsqd, kills = PROGRAMS / "delayed.py", cluster.nsqds[0], 5
    env = {"NSQD": nsqd.tcp_address, "DELAYS": str(tmp_path / "delays.sqlite3")}
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    keep = "anyio.run(keep, backend=backend)"
    remind = imported("delayed").remind
    for each in ("topic/create?topic=reminders", "channel/create?topic=reminders&channel=c"):
        httpx.post(f"{nsqd.http_url}/{each}")
    times: dict[str, datetime] = {}
    with forks(program, env, backend) as fork:
        for kill in range(kills):
            for number in range(5):
                text = f"{kill} {number}"
                times[text] = at = datetime.now(UTC) + timedelta(seconds=number / 5)
                anyio.run(partial(remind, text, at), backend=backend)
            with fork(NEVER, signal.SIGKILL, keep) as process:
                time.sleep(0.15 * kill)  # wherever it is then
                process.end(signal.SIGKILL)
        with fork(NEVER, signal.SIGKILL, keep) as process:
            came: dict[str, int] = {}
            with nsq.sync.consume("reminders", "c", nsqd=nsqd.tcp_address) as consumer:
                while came.keys() != times.keys():
                    message = consumer.take(timeout=LIMIT)
                    assert message is not None
                    with message:
                        came.setdefault(message.payload.decode(), message.timestamp)
            process.end(signal.SIGTERM)
    assert all(came[text] >= at.timestamp() * 1e9 for text, at in times.items())


@on_each_loop
def test_payments_are_handled_once_although_an_nsqd_has_lost_them(
    backend: str, cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NSQD", ",".join(cluster.tcp_addresses))
    monkeypatch.setenv("HANDLED", str(tmp_path / "handled.sqlite3"))
    module = imported("copies")
    paid: Counter[str] = Counter()

    def note(_: str, text: str, *, flush: bool = False) -> None:
        del flush
        paid.update([text])

    monkeypatch.setattr(module, "print", note, raising=False)

    async def main() -> None:
        for number in range(10):
            await module.pay(str(number))
        async with nsq.http.Nsqd(cluster.nsqds[0].http_url) as http:
            await http.delete_topic("payments")
        for number in range(10, 20):
            await module.pay(str(number))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(module.handle)
            await anyio.to_thread.run_sync(wait_until_handled)
            tasks.cancel_scope.cancel()

    def wait_until_handled() -> None:
        for nsqd in cluster.nsqds:
            nsqd.sync.wait_until_empty("payments", "pay", timeout=LIMIT)

    anyio.run(main, backend=backend)
    assert paid == {str(number): 1 for number in range(20)}
