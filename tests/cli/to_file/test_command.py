"""The flags: what they refuse, before anything is consumed."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest
from click.testing import CliRunner

from nsq_anyio.cli.main import cli

NSQD = "--nsqd-tcp-address=127.0.0.1:1"
LOOKUPD = "--lookupd-http-address=127.0.0.1:1"


def invoke(directory: Path, *arguments: str) -> tuple[int, str]:
    output = () if any("output-dir" in argument for argument in arguments) else (f"--output-dir={directory}",)
    result = CliRunner().invoke(cli, ["to-file", *output, *arguments], prog_name="nsq-anyio")
    return result.exit_code, result.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((NSQD,), "no topic: use --topic, or --topic-pattern"),
        ((NSQD, "--topic-pattern=x"), "--topic-pattern needs --lookupd-http-address"),
        ((LOOKUPD, "--topic-pattern=["), r"'\[' is not a regular expression: missing \]"),
        ((LOOKUPD, "--topic-pattern=x", "--topic-refresh=0"), "--topic-refresh 0.0 is not valid"),
        ((NSQD, "--topic=t", "--topic-pattern=x"), "no --topic matches --topic-pattern"),
        ((NSQD, "--topic=a b"), "topic 'a b' is not valid"),
        ((NSQD, "--topic=t", "--channel=a b"), "channel 'a b' is not valid"),
        (("--topic=t",), "use --nsqd-tcp-address or --lookupd-http-address"),
        ((NSQD, LOOKUPD, "--topic=t"), "not both"),
        ((NSQD, "--topic=t", "--gzip", "--zstd"), "use --gzip or --zstd, not both"),
        ((NSQD, "--topic=t", "--gzip-level=10"), "10 is not in the range"),
        ((NSQD, "--topic=t", "--gzip=maybe"), "'maybe' is not a boolean"),
        ((NSQD, "--topic=t", "--gzip", "--filename-format=<TOPIC>"), "add <REV>"),
        ((NSQD, "--topic=t", "--rotate-size=1", "--filename-format=<TOPIC>"), "add <REV>"),
        ((NSQD, "--topic=t", "--work-dir=/x", "--filename-format=<TOPIC>"), "add <REV>"),
        ((NSQD, "--topic=t", "--topic=u", "--work-dir=/x", "--filename-format=<REV>"), "add <TOPIC>"),
        ((LOOKUPD, "--topic-pattern=x", "--work-dir=/x", "--filename-format=<REV>"), "add <TOPIC>"),
        ((NSQD, "--topic=t", "--filename-format=../<TOPIC>"), "which is not a file below the directory"),
        ((NSQD, "--topic=t", "--datetime-format=%Q"), "'%Q' is unknown"),
        ((NSQD, "--topic=t", "--sync-interval=0"), "--sync-interval 0.0 is not valid"),
        ((NSQD, "--topic=t", "--sync-interval=30"), "'30' is not a duration"),
    ],
)
def test_bad_command_lines_are_explained(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    code, output = invoke(tmp_path, *arguments)
    assert code == 2
    assert re.search(message, re.sub(r"\s+", " ", output)), output
    assert list(tmp_path.iterdir()) == []


def test_servers_that_are_not_there(tmp_path: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # and does not listen
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        for flags in (
            (f"--nsqd-tcp-address={address}", "--topic=t"),
            (f"--lookupd-http-address={address}", "--topic=t"),
            (f"--lookupd-http-address={address}", "--topic-pattern=."),
        ):
            code, output = invoke(tmp_path, *flags)
            assert code == 1
            assert re.fullmatch(rf"Error: .*{address}.*\n", output), output


def test_a_directory_that_cannot_be_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for directory in (tmp_path / "file", tmp_path / "file" / "below"):
        code, output = invoke(tmp_path, NSQD, "--topic=t", f"--output-dir={directory}")
        assert code in (1, 2)
        assert re.search(rf"(?m)^Error: .*{directory}.*$", output), output
        assert "Traceback" not in output


def test_one_directory_under_two_names(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    for work in (tmp_path / "link", tmp_path / "missing" / ".."):
        # Nothing is moved, so nothing is numbered: only the server is missing.
        code, output = invoke(tmp_path, NSQD, "--topic=t", f"--work-dir={work}", "--filename-format=<TOPIC>")
        assert code == 1
        assert output.startswith("Error: nsqd 127.0.0.1:1: cannot connect")


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs a second file system")
def test_directories_on_two_file_systems(tmp_path: Path) -> None:
    code, output = invoke(tmp_path, NSQD, "--topic=t", "--work-dir=/dev/shm")
    assert code == 1
    assert re.fullmatch(r"Error: --work-dir=/dev/shm and .* different file systems: .*\n", output)


def test_flags_of_the_real_one_are_known(tmp_path: Path) -> None:
    code, output = invoke(
        tmp_path,
        NSQD.replace("--", "-"),
        "-topic=t",
        "-log-prefix=x",
        "-skip-empty-files",
        "-gzip=false",
        "-http-client-connect-timeout=1s",
        "-consumer-opt=max_attempts,3",
        "-max-in-flight=7",
        "-log-level=warn",
    )
    assert code == 1
    assert output.startswith("note: --log-prefix has no effect\nError: nsqd 127.0.0.1:1: cannot connect")
