"""File names, and when the next file begins."""

import os
import socket
from datetime import UTC, datetime, timedelta, timezone

import pytest

from nsq_anyio.cli.to_file.file_names import (
    NameFormat,
    check_datetime_format,
    format_datetime,
    with_revision,
)
from nsq_anyio.cli.to_file.rotation import Rotation
from nsq_anyio.errors import InvalidOption

MOMENT = datetime(2024, 2, 3, 4, 5, 6, tzinfo=UTC)
HOST = socket.gethostname()
SHORT_HOST = HOST.partition(".")[0]


def name_of(
    topic: str,
    filename_format: str,
    *,
    datetime_format: str = "%Y-%m-%d_%H",
    host_identifier: str = "",
    suffix: str = "",
    numbered: bool = True,
) -> str:
    name_format = NameFormat(filename_format, datetime_format, host_identifier, suffix, numbered)
    return name_format.of_topic(topic).at(MOMENT)


def test_the_usual_name() -> None:
    name = name_of("clicks", "<TOPIC>.<HOST><REV>.<DATETIME>.log")
    assert name == f"clicks.{SHORT_HOST}<REV>.2024-02-03_04.log"
    assert with_revision(name, 7) == f"clicks.{SHORT_HOST}-000007.2024-02-03_04.log"


def test_without_numbers() -> None:
    assert name_of("clicks", "<TOPIC><REV>.log", numbered=False) == "clicks.log"
    assert name_of("clicks", "<TOPIC>.log", numbered=False) == "clicks.log"


def test_each_placeholder_each_time() -> None:
    name = name_of("a", "<TOPIC><TOPIC>/<PID>/<HOST><REV>", host_identifier="<SHORT_HOST>+<HOSTNAME>+x")
    assert name == f"aa/{os.getpid()}/{SHORT_HOST}+{HOST}+x<REV>"


def test_what_stands_in_a_value_is_no_placeholder() -> None:
    assert name_of("a", "<TOPIC><HOST><REV>", host_identifier="<TOPIC>") == "a<TOPIC><REV>"
    assert name_of("a", "<DATETIME><REV>", datetime_format="<TOPIC>") == "<TOPIC><REV>"


def test_the_suffix_is_there_once() -> None:
    assert name_of("a", "<TOPIC><REV>", suffix=".gz") == "a<REV>.gz"
    assert name_of("a", "<TOPIC><REV>.gz", suffix=".gz") == "a<REV>.gz"


def test_directories() -> None:
    assert name_of("a", "<DATETIME>/<TOPIC><REV>", datetime_format="%Y/%m") == "2024/02/a<REV>"
    assert name_of("a", "//x//.//<TOPIC><REV>") == "x/a<REV>"


@pytest.mark.parametrize("topic", [".", ".."])
@pytest.mark.parametrize("filename_format", ["<TOPIC>/<REV>x", "a/<TOPIC>/b<REV>", "<REV>/<TOPIC>"])
def test_no_topic_leaves_the_directory(topic: str, filename_format: str) -> None:
    escaped = topic.replace(".", "%2E")
    assert name_of(topic, filename_format) == filename_format.replace("<TOPIC>", escaped)


def test_dots_are_harmless_elsewhere() -> None:
    assert name_of("...", "<TOPIC>/x<REV>") == ".../x<REV>"
    assert name_of(".a", "<TOPIC><REV>") == ".a<REV>"


@pytest.mark.parametrize(
    ("filename_format", "host_identifier"),
    [
        ("../<TOPIC><REV>", ""),
        ("a/../../<TOPIC><REV>", ""),
        ("<HOST>/<TOPIC><REV>", ".."),
        (".<HOST>/<TOPIC><REV>", "."),
        ("<TOPIC><REV>/", ""),
        ("<TOPIC><REV>\0", ""),
    ],
)
def test_no_format_leaves_the_directory(filename_format: str, host_identifier: str) -> None:
    with pytest.raises(InvalidOption, match=r"--filename-format gives .*--output-dir"):
        name_of("a", filename_format, host_identifier=host_identifier)


def test_numbered_files_need_a_place_for_the_number() -> None:
    with pytest.raises(InvalidOption, match="--filename-format='<TOPIC>' is not valid: add <REV>"):
        name_of("a", "<TOPIC>")


def test_every_directive_of_the_real_one() -> None:
    moment = datetime(2024, 2, 3, 16, 5, 6, tzinfo=timezone(timedelta(hours=1), "CET"))
    text = check_datetime_format("%B %b %m %A %a %d %H %I %M %S %Y %y %p %Z %z %%")
    assert (
        format_datetime(text, moment) == "February Feb 02 Saturday Sat 03 16 04 05 06 2024 24 PM CET +0100 %"
    )
    assert format_datetime(check_datetime_format("%F_%T %j"), moment) == "2024-02-03_16:05:06 034"
    assert format_datetime(check_datetime_format("\udcff%Y%%Y"), moment) == "\udcff2024%Y"


def test_bytes_that_are_not_utf_8_stay_as_they_are() -> None:
    text = os.fsdecode(b"\xff%Y")
    assert os.fsencode(format_datetime(check_datetime_format(text), MOMENT)) == b"\xff2024"


@pytest.mark.parametrize(("text", "bad"), [("%Q", "'%Q'"), ("%Y%", "'%'"), ("%-d", "'%-'"), ("%%%", "'%'")])
def test_unknown_directives(text: str, bad: str) -> None:
    with pytest.raises(InvalidOption, match=f"{bad} is unknown"):
        check_datetime_format(text)


def test_rotation() -> None:
    assert Rotation().reason(size=10**12, age=10.0**12) is None
    assert Rotation(size=10).reason(size=10, age=0) is None
    assert Rotation(size=10).reason(size=11, age=0) == "it has 11 bytes"
    assert Rotation(interval=10).reason(size=0, age=10) is None
    assert Rotation(interval=10).reason(size=0, age=10.5) == "it was opened 10 s ago"
    assert [Rotation(size=10).is_full(size) for size in (0, 10, 11)] == [False, False, True]
    assert not Rotation().is_full(10**12)


@pytest.mark.parametrize(("size", "interval", "name"), [(-1, 0, "rotate_size"), (0, -1, "rotate_interval")])
def test_rotation_out_of_range(size: int, interval: float, name: str) -> None:
    with pytest.raises(InvalidOption, match=name):
        Rotation(size, interval)
