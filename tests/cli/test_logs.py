"""The log of a command, on stderr."""

from __future__ import annotations

import json
import logging
from collections.abc import Generator
from datetime import datetime

import pytest

from nsq_anyio.cli.logs import set_up_logging

log = logging.getLogger("nsq_anyio.test")


@pytest.fixture(autouse=True)
def _as_before() -> Generator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    root.handlers = []  # pytest's own: setting up closes those that it replaces
    others = {name: logging.getLogger(name).level for name in ("httpx", "httpcore")}
    yield
    root.handlers = handlers
    root.setLevel(level)
    for name, before in others.items():
        logging.getLogger(name).setLevel(before)


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("info", "text")
    log.info("%d messages", 3)
    log.debug("not this")
    out, err = capsys.readouterr()
    time, level, name, message = err.split(" ", 3)
    assert datetime.fromisoformat(time).tzinfo is not None
    assert (level, name, message) == ("INFO", "nsq_anyio.test:", "3 messages\n")
    assert out == ""


def test_json_is_an_object_a_line_whatever_the_message(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("debug", "json")
    log.warning("a\nb \N{SNOWMAN}")
    try:
        raise ValueError("why")
    except ValueError:
        log.exception("failed")
    first, second = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert first["message"] == "a\nb \N{SNOWMAN}"
    assert first["level"] == "warning"
    assert first["logger"] == "nsq_anyio.test"
    assert datetime.fromisoformat(first["time"]).tzinfo is not None
    assert second["exception"].endswith("ValueError: why")


@pytest.mark.parametrize(
    ("level", "shown"),
    [
        ("debug", ["debug", "info", "warning", "error"]),
        ("info", ["info", "warning", "error"]),
        ("warn", ["warning", "error"]),
        ("error", ["error"]),
        ("fatal", []),
    ],
)
def test_levels_of_go_and_of_python(level: str, shown: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging(level, "json")
    for method in (log.debug, log.info, log.warning, log.error):
        method("m")
    assert [json.loads(line)["level"] for line in capsys.readouterr().err.splitlines()] == shown


def test_requests_are_logged_at_debug_alone(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("info", "text")
    logging.getLogger("httpx").info("HTTP Request: GET")
    assert capsys.readouterr().err == ""
    set_up_logging("debug", "text")
    logging.getLogger("httpx").info("HTTP Request: GET")
    assert "HTTP Request: GET" in capsys.readouterr().err
