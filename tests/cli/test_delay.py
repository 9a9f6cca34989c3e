"""``nsq-anyio delay list``, ``stats`` and ``cancel``, on files that a test makes."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from nsq_anyio.cli.main import cli
from nsq_anyio.delaying.delay_file import DelayedMessage, DelayFile, Selection

from .processes import asked_by_bash

NOON = datetime(2099, 1, 1, 12, tzinfo=UTC).timestamp()


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(cli, ["delay", *arguments], prog_name="nsq-anyio", env=environment)


def store(path: Path, messages: Sequence[tuple[str, float, bytes]]) -> None:
    with closing(DelayFile(path, writer=True)) as file:
        file.store(
            [
                DelayedMessage(topic=topic, at=at, body=body, source=f"127.0.0.1:4150/{number:016x}")
                for number, (topic, at, body) in enumerate(messages)
            ]
        )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with five messages: two that are due, one of them refused, and three that are not."""
    found = tmp_path / "delays.db"
    store(
        found,
        [
            ("reminders", NOON + 60, b"later"),
            ("reminders", NOON, b"noon"),
            ("invoices", NOON + 30, b"four"),
            ("reminders", 1000.0, b"due"),
            ("invoices", 2000.0, b"refused"),
        ],
    )
    with closing(DelayFile(found, writer=True)) as file:
        (refused,) = file.waiting(Selection(topic="invoices", before=NOON), None)
        file.put_off([refused.id], time.time() + 3600, "E_BAD_MESSAGE \x1b[31m[bold]")
    return found


def listed(path: Path, *more: str) -> list[dict[str, Any]]:
    done = run("list", str(path), "--json", *more)
    assert (done.exit_code, done.stderr) == (0, "")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_list_shows_messages_by_their_times(path: Path) -> None:
    done = run("list", str(path))
    assert (done.exit_code, done.stderr) == (0, "")
    shown = done.stdout
    times = ["1970-01-01 00:16:40", "1970-01-01 00:33:20", "2099-01-01 12:00:00", "2099-01-01 12:01:00"]
    places = [shown.index(each) for each in times]
    assert places == sorted(places)
    assert "E_BAD_MESSAGE \\x1b[31m[bold]" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        ([], [b"due", b"refused", b"noon", b"four", b"later"]),
        (["--topic=reminders"], [b"due", b"noon", b"later"]),
        (["--topic=none"], []),
        (["--before=0"], [b"due"]),
        (["--before=2h"], [b"due", b"refused"]),
        (["--before=2099-01-01T12:00:30Z"], [b"due", b"refused", b"noon"]),
        (["--after=2099-01-01T13:00:30+01:00"], [b"four", b"later"]),
        (["--after=2h", "--before=2099-01-01T12:00:01Z"], [b"noon"]),
        (["--limit=0", "--after=0"], [b"refused", b"noon", b"four", b"later"]),
    ],
)
def test_filters(path: Path, flags: list[str], found: list[bytes]) -> None:
    with closing(DelayFile(path, writer=False)) as file:
        assert [file.body(each["id"]) for each in listed(path, *flags)] == found


def test_list_names_ids_and_says_what_it_leaves_out(path: Path) -> None:
    due, *_, later = [each["id"] for each in listed(path)]
    assert [each["id"] for each in listed(path, str(later), str(due), "999")] == [later, due]
    done = run("list", str(path), "--limit=2")
    assert done.stderr == "there are more than 2 messages: --limit 0 shows all\n"
    assert done.stdout.count("1970") == 2
    assert "2099" not in done.stdout
    assert run("list", str(path), "--limit=5").stderr == ""
    assert run("list", str(path), "--topic=none").stdout == "no messages\n"


def test_list_has_the_whole_row_on_a_narrow_terminal(path: Path) -> None:
    shown = run("list", str(path), COLUMNS="40").stdout
    assert all(str(each["id"]) in shown and each["topic"] in shown for each in listed(path))


def test_json_has_every_field(path: Path) -> None:
    refused = listed(path)[1]
    assert refused["topic"] == "invoices"
    assert refused["at"] == "1970-01-01T00:33:20+00:00"
    assert (refused["bytes"], refused["tries"]) == (7, 1)
    assert refused["error"] == "E_BAD_MESSAGE \x1b[31m[bold]"
    (noon,) = listed(path, "--before=2099-01-01T12:00:01Z", "--after=2h")
    assert (noon["at"], noon["tries"], noon["error"]) == ("2099-01-01T12:00:00+00:00", 0, None)


def test_stats_by_topic(path: Path) -> None:
    done = run("stats", str(path), "--json")
    assert (done.exit_code, done.stderr) == (0, "")
    found = {each.pop("topic"): each for each in map(json.loads, done.stdout.splitlines())}
    assert found["reminders"] == {
        "waiting": 3,
        "bytes": 5 + 4 + 3,
        "next_at": "1970-01-01T00:16:40+00:00",
        "refused": 0,
    }
    assert (found["invoices"]["waiting"], found["invoices"]["refused"]) == (2, 1)
    shown = run("stats", str(path)).stdout
    assert "reminders" in shown
    assert shown.endswith("5 messages\n")


def cancel(path: Path, *more: str) -> int:
    done = run("cancel", str(path), "--yes", "--json", *more)
    assert (done.exit_code, done.stderr) == (0, "")
    cancelled: int = json.loads(done.stdout)["cancelled"]
    return cancelled


@pytest.mark.parametrize(
    ("flags", "left"),
    [
        (["--topic=reminders"], [b"due", b"refused", b"four"]),
        (["--before=2099-01-01T12:00:45Z"], [b"due", b"later"]),
        (["--after=2099-01-01T12:00:45Z"], [b"due", b"refused", b"noon", b"four"]),
        (["--all"], [b"due"]),
    ],
)
def test_cancel_deletes_what_is_selected_and_not_due(path: Path, flags: list[str], left: list[bytes]) -> None:
    with closing(DelayFile(path, writer=False)) as file:
        assert cancel(path, *flags) == 5 - len(left)
        assert [file.body(each["id"]) for each in listed(path)] == left


def test_cancel_says_which_ids_it_left(path: Path) -> None:
    due, _refused, noon, four, later = [str(each["id"]) for each in listed(path)]
    assert cancel(path, noon, four) == 2
    done = run("cancel", str(path), "--yes", later, due, "999")
    assert done.exit_code == 3
    assert done.stdout == "cancelled 1 message\n"
    assert f"due already: {due}, 999; see" in done.stderr
    done = run("cancel", str(path), "--yes", due)
    assert (done.exit_code, done.stdout) == (1, "cancelled 0 messages\n")


def test_cancel_asks_first(path: Path) -> None:
    done = run("cancel", str(path), "--all", COLUMNS="80")
    assert done.exit_code == 1
    assert "for good? Use --yes to confirm" in done.stderr
    assert len(listed(path)) == 5
    for flags in ([], ["--all", "--topic=reminders"], ["--all", "1"]):
        done = run("cancel", str(path), "--yes", *flags)
        assert done.exit_code == 2
        assert "or use --all" in done.stderr
    assert len(listed(path)) == 5


@pytest.mark.parametrize("command", ["list", "stats", "cancel"])
def test_a_file_that_cannot_be_used_is_one_line(tmp_path: Path, command: str) -> None:
    more = ["--all", "--yes"] if command == "cancel" else []
    text = tmp_path / "notes.txt"
    text.write_text("no database, but a text that is long enough to be the header of one " * 20)
    for place in (tmp_path / "none.db", text):
        done = run(command, str(place), *more)
        assert done.exit_code == 1
        assert done.stdout == ""
        error = done.stderr
        assert error.startswith("Error: ")
        assert str(place) in error
        assert error.count("\n") == 1
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize("text", ["soon", "2099-01-01T12:00", "2099-13-01T00:00Z", "12"])
def test_a_time_that_is_not_valid(path: Path, text: str) -> None:
    done = run("list", str(path), f"--before={text}")
    assert done.exit_code == 2
    assert "--before" in done.stderr
    assert "such as" in done.stderr


def test_topics_of_the_file_are_completed(path: Path) -> None:
    for line, found in [
        (f"nsq-anyio delay list {path} --topic re", "plain,reminders"),
        ("nsq-anyio delay list none.db --topic re", ""),
        ("nsq-anyio delay list --topic re", ""),
    ]:
        done = CliRunner().invoke(cli, [], prog_name="nsq-anyio", env=asked_by_bash(line))
        assert (done.exit_code, done.stderr) == (0, "")
        assert done.stdout.strip() == found, line


@pytest.mark.parametrize("command", ["list", "cancel"])
def test_a_topic_that_nsqd_would_refuse_is_an_error(path: Path, command: str) -> None:
    done = run(command, str(path), "--topic", "\udcff", *(["--yes"] if command == "cancel" else []))
    assert done.exit_code == 1
    assert "topic '\\udcff' is not valid" in done.stderr
