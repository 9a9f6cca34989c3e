"""The blocks of docs/web.md that are no files: its tests pass, and Django's worker loses nothing."""

from __future__ import annotations

import re
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from nsq_anyio.testing import Nsqd

from .programs import LIMIT, ROOT, running
from .test_web import WORKER, kill_in_both_tasks, timed_out

pytestmark = pytest.mark.timeout(180)

PAGE = (ROOT / "docs" / "web.md").read_text("utf-8")
BLOCKS: dict[str, str] = dict(
    re.findall(r"^```py\n# ([\w/]+\.py)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
)

SETTINGS = """
from pathlib import Path

SECRET_KEY = "only for tests"
INSTALLED_APPS = ["orders"]
DATABASES = {
    "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": Path(__file__).with_name("shop.sqlite3")}
}
"""
MODELS = """
import os
import time

from django.db import models


class Bill(models.Model):
    number = models.IntegerField(unique=True)

    def save(self, **options):
        time.sleep(float(os.environ.get("SECONDS", "0")))
        super().save(**options)
"""


def test_the_tests_of_the_page_pass(nsqd: Nsqd, tmp_path: Path) -> None:
    tests = [name for name in BLOCKS if name.startswith("test_")]
    assert len(tests) == 3
    for name in tests:
        (tmp_path / name).write_text(BLOCKS[name], "utf-8")
    with running(["pytest", "-p", "no:cacheprovider", str(tmp_path)], nsqd.tcp_address) as process:
        assert process.wait(LIMIT) == 0


@pytest.mark.nsqd_options(msg_timeout=2.0)
def test_a_worker_with_models_that_is_killed_in_a_task_loses_nothing(nsqd: Nsqd, tmp_path: Path) -> None:
    (tmp_path / "orders").mkdir()
    for name, source in {
        "shop_settings.py": SETTINGS,
        "orders/__init__.py": "",
        "orders/models.py": MODELS,
        "orders/worker.py": BLOCKS["orders/worker.py"],
    }.items():
        (tmp_path / name).write_text(source, "utf-8")
    env = {"PYTHONPATH": str(tmp_path), "DJANGO_SETTINGS_MODULE": "shop_settings"}
    with running(["django", "migrate", "--run-syncdb"], nsqd.tcp_address, env=env) as process:
        assert process.wait(LIMIT) == 0
    worker = [*WORKER, f"--nsqd-tcp-address={nsqd.tcp_address}"]
    worker[worker.index("billing:bill")] = "orders.worker:bill"
    nsqd.sync.publish("orders", b"1")
    nsqd.sync.publish("orders", b"2")
    with running(worker, nsqd.tcp_address, env={"SECONDS": "100", **env}) as process:
        kill_in_both_tasks(process, nsqd)
    with running(worker, nsqd.tcp_address, env=env) as process:
        nsqd.sync.wait_until_empty("orders", "billing", timeout=LIMIT)
        process.send_signal(signal.SIGTERM)
        assert process.wait(LIMIT) == 0
    assert timed_out(nsqd) >= 2
    with closing(sqlite3.connect(tmp_path / "shop.sqlite3")) as database:
        assert database.execute("SELECT number FROM orders_bill ORDER BY number").fetchall() == [(1,), (2,)]
