"""``nsq-anyio completion``: its scripts, and the answers to what they ask."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from click.testing import CliRunner

from nsq_anyio.cli.main import cli

from .processes import asked_by_bash, run


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_asks_the_program(shell: str) -> None:
    result = run("completion", shell)
    assert result.returncode == 0
    assert f"_NSQ_ANYIO_COMPLETE={shell}_complete" in result.stdout.decode()


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_understands_the_script() -> None:
    script = run("completion", "bash").stdout
    subprocess.run(["bash", "-n"], input=script, check=True, timeout=20)


def _completed(line: str) -> list[str]:
    """What bash would offer for the last word of ``line``."""
    result = CliRunner().invoke(cli, [], prog_name="nsq-anyio", env=asked_by_bash(line))
    return [line.partition(",")[2] for line in result.output.splitlines()]


def _answer(line: str) -> bytes:
    """What a process of its own prints for bash."""
    word = line.split(" ")[-1]
    return run(_NSQ_ANYIO_COMPLETE="bash_complete", COMP_LINE=line, COMP_WORD=word).stdout


def test_commands_flags_and_values_are_completed() -> None:
    assert set(_completed("nsq-anyio t")) == {"tail", "to-file", "to-http", "to-nsq", "topic"}
    assert _completed("nsq-anyio tail --lookupd") == ["--lookupd-http-address"]
    assert _completed("nsq-anyio tail --nsqd") == ["--nsqd-http-address", "--nsqd-tcp-address", "--nsqd"]
    assert _completed("nsq-anyio tail --backend t") == ["trio"]
    assert _completed("nsq-anyio tail -backend t") == ["trio"]
    assert _completed("nsq-anyio tail --backend=t") == ["trio"]
    assert "empty" in _completed("nsq-anyio channel ")


def test_the_program_answers() -> None:
    assert _answer("nsq-anyio st") == b"plain,stat\n"


@pytest.mark.parametrize("flag", ["tail --tls-ca-file", "stat --http-client-tls-key", "nsqd --tls-cert"])
def test_paths_are_left_to_the_shell(flag: str) -> None:
    assert _answer(f"nsq-anyio {flag} /etc/p") == b"file,/etc/p\n"


def test_another_shell_is_refused() -> None:
    result = CliRunner().invoke(cli, ["completion", "tcsh"])
    assert result.exit_code == 2
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in result.stderr
