"""Spark Connect: a client without a JVM, and a server on which the source runs."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from ..cluster import short_lived
from ..conftest import new_name
from ..nsqds import ROOT, Topic
from ..processes import running
from . import connect

pytestmark = pytest.mark.timeout(300)


def test_a_client_of_spark_connect_reads_and_writes(real_topic: Topic, tmp_path: Path) -> None:
    (tmp_path / "spool").mkdir()
    real_topic.publish_numbers(1_500)
    write = {"topic": new_name(), "nsqd": real_topic.nsqd.tcp_address}
    target = real_topic.nsqd.topic(write["topic"])
    task = json.dumps({"read": real_topic.options, "write": write, "directory": str(tmp_path)})
    command = [sys.executable, "-m", connect.__name__, task]
    with running(command, log_path=tmp_path / "log", env={**os.environ, **short_lived()}, cwd=ROOT) as client:
        assert client.wait() == 0, client.tail
    found = json.loads((tmp_path / "found").read_text(encoding="utf-8"))
    assert "connect" in found.pop("client")
    assert "reads " in (refusal := found.pop("refused"))
    assert "foreachBatch" in refusal
    assert found == {"peeked": 1_500, "ended": True, "rows": 1_500}
    assert real_topic.state().left == 0
    assert target.state().left == 1_500
