"""At most one stream of an application reads a channel: a claim of one process keeps out its siblings."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nsq_anyio.errors import InvalidOption
from nsq_anyio.spark.claim import Claim

from .conftest import new_name
from .nsqds import ROOT

pytestmark = pytest.mark.timeout(60)

NSQD = "127.0.0.1:4150"

_HOLD = """
import sys
from nsq_anyio.spark import claim
held = claim.Claim(sys.argv[1], "c")
held.take(sys.argv[2:], patience=0.2)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def same_application(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Let this process be a reader of the application of which it is the JVM."""
    monkeypatch.setattr(os, "getppid", os.getpid)
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))


@contextmanager
def held_by_another(topic: str, *nsqds: str) -> Generator[subprocess.Popen[str]]:
    """Let another reader of the application hold a claim for the length of the block."""
    command = [sys.executable, "-c", _HOLD, topic, *nsqds]
    with subprocess.Popen(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "held\n"
        yield reader
        reader.kill()


def test_second_stream_is_told_the_way_out() -> None:
    topic = new_name()
    with held_by_another(topic, NSQD), pytest.raises(InvalidOption) as caught:
        Claim(topic, "c").take([NSQD], patience=0.2)
    for text in (f"{topic}/c", NSQD, "foreachBatch", "a channel of its own", "shareChannel=true"):
        assert text in str(caught.value)


def test_other_channels_nsqds_and_applications_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = new_name()
    with held_by_another(topic, NSQD):
        for mine, nsqd in ((Claim(topic, "d"), NSQD), (Claim(topic, "c"), "127.0.0.1:5150")):
            mine.take([nsqd])
            mine.release()
        monkeypatch.setattr(os, "getppid", lambda: 1)
        mine = Claim(topic, "c")
        mine.take([NSQD])
        mine.release()


@pytest.mark.parametrize("by_kill", [True, False])
def test_claim_ends_with_its_process_however_that_ends(by_kill: bool) -> None:
    topic = new_name()
    mine = Claim(topic, "c")
    with held_by_another(topic, NSQD) as reader:
        if by_kill:
            reader.kill()
        else:
            assert reader.stdin is not None
            reader.stdin.close()
        reader.wait()
        mine.take([NSQD])
    mine.release()


def test_reader_that_is_about_to_end_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    topic = new_name()
    mine = Claim(topic, "c")
    with held_by_another(topic, NSQD) as reader:

        def kill(_seconds: float) -> None:
            reader.kill()

        monkeypatch.setattr(time, "sleep", kill)
        mine.take([NSQD], patience=20)
    mine.release()


def test_copy_of_a_task_claims_nothing() -> None:
    topic = new_name()
    mine = Claim(topic, "c")
    mine.take([NSQD])
    copy = pickle.loads(pickle.dumps(mine))
    copy.release()
    with pytest.raises(AssertionError), held_by_another(topic, NSQD):
        pytest.fail("the copy has released it")
    mine.release()


def test_directory_that_cannot_be_written_is_no_obstacle(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "missing"))
    Claim("t", "c").take([NSQD])
    assert "cannot tell whether other streams read the same channel" in caplog.text


def test_files_of_applications_that_have_ended_are_deleted(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    names = [f"nsq-anyio-spark-{os.getuid()}-{pid}.locks" for pid in (ended.pid, 1)]
    for name in (*names, "other.locks"):
        (tmp_path / name).touch()
    mine = Claim("t", "c")
    mine.take([NSQD])
    mine.release()
    found = {path.name for path in tmp_path.iterdir()}
    assert found == {names[1], "other.locks", f"nsq-anyio-spark-{os.getuid()}-{os.getpid()}.locks"}


def test_many_claims_of_a_process_share_one_open_file() -> None:
    claims = [Claim(new_name(), "c") for _ in range(50)]
    before = open_files()
    for mine in claims:
        mine.take([NSQD])
    assert open_files() <= before + 1
    for mine in claims:
        mine.release()


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_claim_that_is_released_leaves_the_others_of_its_process() -> None:
    topic = new_name()
    kept, other = Claim(topic, "c"), Claim(new_name(), "c")
    for mine in (kept, other):
        mine.take([NSQD])
    other.release()
    with pytest.raises(AssertionError), held_by_another(topic, NSQD):
        pytest.fail("the other one has released it")
    kept.release()
