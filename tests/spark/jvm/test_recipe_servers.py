"""The recipes of docs/spark-recipes.md for servers of Spark: its commands run as they are written there."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import sysconfig
from pathlib import Path

import pyspark
import pytest

from ..cluster import Cluster, environment, short_lived
from ..conftest import new_name
from ..nsqds import ROOT, Topic, wait_until
from ..processes import running
from .recipes import PROGRAMS, column, running_clicks

PAGE = (ROOT / "docs" / "spark-recipes.md").read_text(encoding="utf-8")
HOME = Path(pyspark.__path__[0])

pytestmark = pytest.mark.timeout(300)


def commands(first_words: str) -> str:
    """The block of the page that begins with these words."""
    (block,) = re.findall(rf"^```sh\n({re.escape(first_words)}.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(block)


def test_a_standalone_cluster_runs_a_recipe(spark_cluster: Cluster, java: str, tmp_path: Path) -> None:
    (tmp_path / "spool").mkdir()
    small = "--conf spark.cores.max=2 --conf spark.executor.cores=1 --conf spark.executor.memory=512m"
    local = "--conf spark.driver.host=127.0.0.1 --conf spark.ui.enabled=false --conf spark.log.level=WARN"
    with running_clicks() as clicks:
        topic = clicks.channel("json")
        topic.publish(b'{"page": "/%d"}' % number for number in range(300))
        script = commands("export PYSPARK_PYTHON=")
        for written, meant in {
            "/opt/nsq/bin/python": sys.executable,
            "spark-submit": f"{HOME}/bin/spark-submit {small} {local}",
            "spark://master.example.com:7077": spark_cluster.master,
            "json_rows.py": str(PROGRAMS / "json_rows.py"),
            "http://nsqlookupd.example.com:4161": clicks.nsqlookupd,
            "/mnt/shared/clicks": str(tmp_path),
        }.items():
            assert written in script
            script = script.replace(written, meant)
        done = _run(["bash", "-e", "-c", script], tmp_path)
        assert done.returncode == 0, done.stderr
        assert topic.state().left == 0
    pages = column(tmp_path / "clicks", "page")
    assert len(pages) == 300
    assert set(pages) == {f"/{number}" for number in range(300)}


def test_a_client_of_spark_connect_needs_no_package(java: str, real_topic: Topic, tmp_path: Path) -> None:
    (tmp_path / "spool").mkdir()
    (tmp_path / "on-the-server").mkdir()
    (tmp_path / "on-the-server" / "pyspark_nsq.py").write_text(
        (PROGRAMS / "pyspark_nsq.py").read_text(encoding="utf-8"), encoding="utf-8"
    )
    real_topic.publish_numbers(300)
    write = {"topic": new_name(), "nsqd": real_topic.nsqd.tcp_address}
    target = real_topic.nsqd.topic(write["topic"])
    port = _free_port()
    script = commands("export PYTHONPATH=")
    for written, meant in {
        "/opt/nsq/modules": str(tmp_path / "on-the-server"),
        "/opt/nsq/bin/python": sys.executable,
        "start-connect-server.sh": f"{HOME}/sbin/start-connect-server.sh",
        "spark://master.example.com:7077": f"local[2] --conf spark.connect.grpc.binding.port={port} "
        "--conf spark.connect.grpc.binding.address=127.0.0.1 --conf spark.ui.enabled=false",
    }.items():
        assert written in script
        script = script.replace(written, meant)
    env = {**os.environ, **short_lived(), "SPARK_LOG_DIR": str(tmp_path)}
    with running(["bash", "-e", "-c", script], log_path=tmp_path / "log", env=env, cwd=tmp_path) as server:
        wait_until(lambda: "Spark Connect server started" in server.log, "the server", 120)
        task = {
            "url": f"sc://127.0.0.1:{port}",
            "read": {**real_topic.options, "maxWait": "10"},
            "write": write,
            "directory": str(tmp_path),
        }
        # The interpreter has the libraries of this one, but not the package, which is not among them.
        python = str(Path(sys.base_prefix, "bin", f"python{sysconfig.get_python_version()}"))
        client = Path(__file__).with_name("connect_client.py")
        done = _run(
            [python, str(client), json.dumps(task)], tmp_path, PYTHONPATH=sysconfig.get_path("purelib")
        )
        assert done.returncode == 0, f"{done.stderr}\n{server.tail}"
    assert json.loads(done.stdout) == {"peeked": 300, "ended": True, "stored": 300}
    assert real_topic.state().left == 0
    assert target.state().left == 300


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _run(command: list[str], directory: Path, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=directory,
        env={**os.environ, **environment(), **env},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
