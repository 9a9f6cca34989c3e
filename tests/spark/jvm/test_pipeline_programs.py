"""The pipelines as programs: the command line, spark-submit with the package shipped, and the example."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pyspark
import pytest
from anyio.from_thread import start_blocking_portal
from pyspark.sql import SparkSession

from ...real_servers import real_nsqlookupd
from ..cluster import environment
from ..conftest import new_name
from ..nsqds import ROOT, Topic, registered, running_nsqd, wait_until
from ..processes import running

BIN = Path(pyspark.__file__).parent / "bin"

_LIMIT = 140.0

# SPARK-59135: with any source in Python, the client of a pipeline that is complete stumbles over metrics.
_SPARK_59135 = "[UNKNOWN_RESPONSE] Unknown response: Plan observed(__python_accumulator__="

pytestmark = pytest.mark.timeout(300)


def run(
    *command: str, cwd: Path, env: dict[str, str] | None = None, known_error: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; its output is the error of a test, unless it shows an error that is known."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **environment(), **(env or {})},
        capture_output=True,
        text=True,
        timeout=_LIMIT,
        check=False,
    )
    output = f"{done.stdout}\n{done.stderr}"
    assert done.returncode == 0 or (known_error is not None and known_error in output), output
    return done


def test_the_command_archives_and_replays(real_topic: Topic, tmp_path: Path) -> None:
    command = (sys.executable, "-m", "nsq_anyio", "pipeline")
    real_topic.publish(str(number).encode() for number in range(300))
    archived = run(
        *(*command, "archive", "--topic", real_topic.name, "--channel", real_topic.channel),
        *("--nsqd", real_topic.nsqd.tcp_address, "--option", f"nsqdHttp={real_topic.nsqd.http_url}"),
        *("--state", "state", "--output", "out", "--master", "local[1]", "--json"),
        cwd=tmp_path,
    )
    summary = json.loads(archived.stdout)
    assert (summary["rows"], summary["lag"]) == (300, 0)
    assert "Traceback" not in archived.stderr
    again = real_topic.nsqd.topic(new_name())
    replayed = run(
        *(*command, "replay", "--input", "out", "--topic", again.name, "--nsqd", again.nsqd.tcp_address),
        *("--master", "local[1]"),
        cwd=tmp_path,
    )
    assert "batch 0: 300 rows" in replayed.stderr
    assert len(set(again.take(300))) == 300


@pytest.mark.parametrize(
    ("nsqd", "output", "expected"),
    [
        ("127.0.0.1:1", "out", "no nsqd answered"),
        (None, "file/out", "file"),
    ],
    ids=["unreachable nsqd", "unwritable output"],
)
def test_what_goes_wrong_is_one_clear_line(
    real_topic: Topic, tmp_path: Path, nsqd: str | None, output: str, expected: str
) -> None:
    (tmp_path / "file").touch()
    given = {"--nsqd": nsqd or real_topic.nsqd.tcp_address}
    if nsqd is None:
        given["--option"] = f"nsqdHttp={real_topic.nsqd.http_url}"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "nsq_anyio", "pipeline", "archive", "--topic", "t", "--channel", "c"),
            *(part for pair in given.items() for part in pair),
            *("--state", "state", "--output", output, "--master", "local[1]"),
        ],
        cwd=tmp_path,
        env={**os.environ, **environment()},
        capture_output=True,
        text=True,
        timeout=_LIMIT,
        check=False,
    )
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("Error: ")
    assert expected in last
    assert "Traceback" not in done.stderr


def test_ctrl_c_ends_a_pipeline_that_runs_on(real_topic: Topic, tmp_path: Path) -> None:
    real_topic.publish(str(number).encode() for number in range(300))
    command = [
        *(sys.executable, "-m", "nsq_anyio", "pipeline", "archive", "--topic", real_topic.name),
        *("--channel", real_topic.channel, "--nsqd", real_topic.nsqd.tcp_address),
        *("--option", f"nsqdHttp={real_topic.nsqd.http_url}", "--state", "state", "--output", "out"),
        *("--every", "0.5", "--master", "local[1]"),
    ]
    log_path = tmp_path / "log"
    with running(command, log_path=log_path, env={**os.environ, **environment()}, cwd=tmp_path) as program:
        wait_until(lambda: "batch 0: 300 rows" in program.log, "the first batch", _LIMIT)
        program.process.send_signal(signal.SIGINT)
        # Java has ended too, as it is one of the program's descendants.
        assert program.wait(_LIMIT) == 0, program.tail
    assert "│ archive  │       1 │  300 │" in program.log
    assert "Traceback" not in program.log


def test_spark_submit_runs_what_is_shipped(real_topic: Topic, tmp_path: Path) -> None:
    """The interpreter sees the libraries of this one, but not the package: it is only in the archive."""
    shipped = tmp_path / "nsq_anyio.zip"
    with zipfile.ZipFile(shipped, "w") as archive:
        for path in (ROOT / "nsq_anyio").rglob("*.py"):
            archive.write(path, path.relative_to(ROOT))
    python = str(Path(sys.base_prefix, "bin", f"python{sysconfig.get_python_version()}"))
    env = {"PYSPARK_PYTHON": python, "PYTHONPATH": sysconfig.get_path("purelib")}
    probe = subprocess.run(
        [python, "-c", "import nsq_anyio"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert "No module named 'nsq_anyio'" in probe.stderr
    real_topic.publish(str(number).encode() for number in range(300))
    (tmp_path / "spool").mkdir()
    done = run(
        *(str(BIN / "spark-submit"), "--master", "local[1]", "--py-files", str(shipped)),
        *("--conf", "spark.ui.enabled=false", "--conf", "spark.log.level=ERROR"),
        *("--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"),
        str(ROOT / "nsq_anyio" / "spark" / "pipelines" / "__main__.py"),
        *("archive", f"topic={real_topic.name}", f"channel={real_topic.channel}"),
        *(f"nsqd={real_topic.nsqd.tcp_address}", f"output={tmp_path / 'out'}"),
        *(f"checkpoint={tmp_path / 'checkpoint'}", f"spool_dir={tmp_path / 'spool'}"),
        f"options={json.dumps({'nsqdHttp': real_topic.nsqd.http_url})}",
        cwd=tmp_path,
        env=env,
    )
    summary = json.loads(done.stdout.splitlines()[-1])
    assert (summary["rows"], summary["lag"]) == (300, 0)


def test_the_demo_shows_what_the_files_hold(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "nsq_anyio", "demo", "--spark", "--messages", "5000")
    done = run(*command, "--json", cwd=tmp_path)
    summary = json.loads(done.stdout)
    assert summary["published"] == summary["archived"] == summary["unique"] == 5000
    assert summary["files"] >= 2
    assert list(tmp_path.iterdir()) == []


def test_the_declarative_example_fills_its_tables(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("spark_declarative_pipeline.py", "spark-pipeline.yml"):
        text = (ROOT / "examples" / name).read_text("utf-8")
        (tmp_path / name).write_text(text.replace("/tmp/nsq-anyio-clicks", str(tmp_path / "storage")))
    (tmp_path / "spool").mkdir()
    bodies = [json.dumps({"country": ("at", "de")[number % 2], "ms": number}) for number in range(100)]
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(real_nsqlookupd()) as lookupd:
        with running_nsqd("real", [f"--lookupd-tcp-address={lookupd.tcp_address}"]) as nsqd:
            nsqd.topic("clicks", "lakehouse").publish(body.encode() for body in bodies)
            wait_until(lambda: registered(lookupd.http_url, "clicks"), "nsqd to register the topic")
            done = run(
                *(str(BIN / "spark-pipelines"), "run", "--spec", "spark-pipeline.yml"),
                *("--conf", "spark.ui.enabled=false"),
                cwd=tmp_path,
                env={"NSQLOOKUPD": lookupd.http_url, "NSQ_SPOOL": str(tmp_path / "spool")},
                known_error=_SPARK_59135,
            )
    assert "Run is COMPLETED" in done.stdout + done.stderr
    rows = spark.read.parquet(str(tmp_path / "spark-warehouse" / "clicks_by_country")).collect()
    counted = sorted((row["country"], row["clicks"], row["mean_ms"]) for row in rows)
    assert counted == [("at", 50, 49.0), ("de", 50, 50.0)]
