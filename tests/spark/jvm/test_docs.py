"""The code of docs/spark.md runs; its blocks are not marked as those are that tests/test_docs.py runs."""

from __future__ import annotations

import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from pyspark.sql import SparkSession

from nsq_anyio.testing import cluster_in_thread

from ...real_servers import real_nsqlookupd
from ..nsqds import ROOT, Topic, registered, running_nsqd, wait_until

pytestmark = pytest.mark.timeout(180)  # the first test of a worker also starts Java

PAGE = ROOT / "docs" / "spark.md"
BLOCK = re.compile(r"^```\{code-block\} python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ALL_BLOCKS = BLOCK.findall(PAGE.read_text(encoding="utf-8"))
BLOCKS = [code for code in ALL_BLOCKS if not code.startswith("# test_")]
MESSAGES = 50


@pytest.fixture(scope="module")
def clicks() -> Generator[tuple[Topic, dict[str, str]]]:
    """The documentation's topic, and what its addresses stand for."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(real_nsqlookupd()) as lookupd:
        with running_nsqd("real", [f"--lookupd-tcp-address={lookupd.tcp_address}"]) as nsqd:
            topic = nsqd.topic("clicks", "archive")
            wait_until(lambda: registered(lookupd.http_url, "clicks"), "nsqd to register the topic")
            yield topic, {"http://127.0.0.1:4161": lookupd.http_url, "127.0.0.1:4150": nsqd.tcp_address}


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_code_of_the_page_runs(
    number: int,
    spark: SparkSession,
    clicks: tuple[Topic, dict[str, str]],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    topic, addresses = clicks
    topic.publish([b'{"page": 1}'] * MESSAGES)
    code = BLOCKS[number]
    for documented, real in {**addresses, "/srv/spark": str(tmp_path)}.items():
        code = code.replace(documented, real)
    exec(compile(code, f"{PAGE.name}-{number}", "exec"), {"__name__": "__main__"})
    if "print(" in code:
        # What it prints first is a count; a table may follow.
        assert int(capsys.readouterr().out.split()[0]) >= MESSAGES


def test_the_test_of_the_page_passes(spark: SparkSession, tmp_path: Path) -> None:
    (code,) = set(ALL_BLOCKS) - set(BLOCKS)
    namespace: dict[str, Any] = {}
    exec(compile(code, f"{PAGE.name}-test", "exec"), namespace)
    with cluster_in_thread(nsqds=1, nsqlookupds=0) as cluster:
        namespace["test_a_click_is_kept"](cluster.nsqds[0], tmp_path)


def test_page_has_code() -> None:
    assert BLOCKS
