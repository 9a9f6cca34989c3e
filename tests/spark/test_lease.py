"""The lease of a spool: there as long as its query is, and young."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nsq_anyio.spark.lease import VALID, Lease, holder, time_of

from .nsqds import wait_until


def leases(spool: Path) -> list[Path]:
    return sorted(spool.glob("lease-*"))


def test_a_lease_is_held_and_released(tmp_path: Path) -> None:
    assert holder(tmp_path, time.time()) is None
    held = Lease()
    for _ in range(2):
        held.hold(tmp_path)
        assert len(leases(tmp_path)) == 1
    found = holder(tmp_path, time_of(tmp_path))
    assert found is not None
    assert f"(process {os.getpid()}), seen 0 s ago" in found
    held.release()
    assert list(tmp_path.iterdir()) == []


def test_a_lease_is_kept_young_and_gets_old_without_its_process(tmp_path: Path) -> None:
    held = Lease(renew_every=0.02)
    held.hold(tmp_path)
    (path,) = leases(tmp_path)
    os.utime(path, (0, 0))
    wait_until(lambda: path.stat().st_mtime > 0, "the lease to be renewed")
    path.unlink()
    wait_until(path.exists, "the lease to be written again")
    seen = path.stat().st_mtime
    assert holder(tmp_path, seen + VALID - 1) is not None
    assert holder(tmp_path, seen + VALID + 1) is None
    held.release()


def test_a_lease_that_is_forgotten_or_whose_spool_is_gone_ends(tmp_path: Path) -> None:
    held = Lease(renew_every=0.02)
    held.hold(tmp_path)
    assert leases(tmp_path)
    del held
    gc.collect()
    wait_until(lambda: not leases(tmp_path), "the thread to delete its lease")


def test_a_copy_for_a_task_holds_nothing(tmp_path: Path) -> None:
    held = Lease()
    held.hold(tmp_path)
    pickle.loads(pickle.dumps(held)).release()
    assert leases(tmp_path)
    held.release()


def test_a_second_sigterm_at_any_moment_does_no_harm(tmp_path: Path) -> None:
    """Spark sends two, and the second one may interrupt what the first one makes the process do."""
    program = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from nsq_anyio.spark.lease import Lease\n"
        "def die(lines):\n"
        "    left = lines\n"
        "    def count(frame, event, argument):\n"
        "        nonlocal left\n"
        "        left -= event == 'line'\n"
        "        if left == 0:\n"
        "            signal.raise_signal(signal.SIGTERM)\n"
        "        return count\n"
        "    held = Lease()\n"
        "    held.hold(Path(sys.argv[1]))\n"
        "    signal.alarm(10)\n"
        "    sys.settrace(count)\n"
        "    signal.raise_signal(signal.SIGTERM)\n"
        "for lines in range(1, 60):\n"
        "    process = os.fork() or die(lines)\n"
        "    print(os.WTERMSIG(os.waitpid(process, 0)[1]))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    told = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert told.split() == [str(signal.SIGTERM.value)] * 59
    assert leases(tmp_path) == []


@pytest.mark.parametrize("content", [b"", b"\xff", b"[]", b"{}"])
def test_what_a_lease_says_does_not_matter(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "lease-0f").write_bytes(content)
    assert str(holder(tmp_path, time.time())).startswith("a query, seen ")
