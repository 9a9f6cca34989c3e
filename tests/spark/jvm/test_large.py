"""Large bodies in a small JVM, which has many more of them to read than fit into its memory.

With ``NSQ_ANYIO_LEDGER=long``, it reads and replays 10,000 bodies of 1 MiB with a heap of 1 GiB, which is
Spark's default; that takes some ten minutes, and 30 GiB of disk.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ..cluster import short_lived
from ..nsqds import ROOT, running_nsqd

IS_LONG = os.environ.get("NSQ_ANYIO_LEDGER") == "long"
BODIES = 10_000 if IS_LONG else 320
CONFIG = {"spark.driver.memory": "1g" if IS_LONG else "500m"}
if not IS_LONG:
    CONFIG["spark.driver.extraJavaOptions"] = "-XX:MaxDirectMemorySize=256m"
LIMIT = 1_800 if IS_LONG else 140

MIB = 1024 * 1024

PROGRAM = """
import json, sys
from nsq_anyio.spark import session
from nsq_anyio.spark.pipelines import archive, replay
config, source, target = map(json.loads, sys.argv[1:])
spark = session(master="local[2]", config=config)
spark.sparkContext.setLogLevel("ERROR")
print(archive(spark, output="out", checkpoint="checkpoint", **source).rows, replay(spark, **target).rows)
"""

pytestmark = pytest.mark.timeout(LIMIT + 60)


def test_more_large_bodies_than_memory_are_read_and_replayed(java: str, tmp_path: Path) -> None:
    with running_nsqd("real", [f"--data-path={tmp_path}", "--mem-queue-size=10"]) as nsqd:
        topic = nsqd.topic("large")
        for first in range(0, BODIES, 4):
            topic.publish([b"%09d" % number + b"x" * (MIB - 9) for number in range(first, first + 4)])
        nsqd.topic("again")
        source = {
            **{name: topic.options[name] for name in ("topic", "channel", "nsqd")},
            "options": {"nsqdHttp": topic.options["nsqdHttp"], "minPartitions": 2},
            "spool_dir": str(tmp_path / "spool"),
        }
        target = {"input": "out", "topic": "again", "nsqd": nsqd.tcp_address}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *map(json.dumps, (CONFIG, source, target))],
            cwd=tmp_path,
            env={**os.environ, **short_lived(), "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        assert done.stdout.endswith(f"{BODIES} {BODIES}\n"), done.stderr[-4_000:]
        assert topic.state().left == 0
