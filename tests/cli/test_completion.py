"""``nsq-anyio completion``: its scripts, and the answers to what they ask."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from click.testing import CliRunner

from nsq_anyio.cli.main import cli

from .processes import run


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_asks_the_program(shell: str) -> None:
    result = run("completion", shell)
    assert result.returncode == 0
    assert f"_NSQ_ANYIO_COMPLETE={shell}_complete" in result.stdout.decode()


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
def test_bash_understands_the_script() -> None:
    script = run("completion", "bash").stdout
    subprocess.run(["bash", "-n"], input=script, check=True, timeout=20)


def _completed(words: str, position: int) -> list[str]:
    """What bash would offer for the word at ``position``."""
    result = CliRunner().invoke(
        cli,
        [],
        prog_name="nsq-anyio",
        env={"_NSQ_ANYIO_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(position)},
    )
    return [line.partition(",")[2] for line in result.output.splitlines()]


def test_commands_flags_and_values_are_completed() -> None:
    assert set(_completed("nsq-anyio t", 1)) == {"tail", "to-file", "to-http", "to-nsq", "topic"}
    assert _completed("nsq-anyio tail --lookupd", 2) == ["--lookupd-http-address"]
    assert _completed("nsq-anyio tail --backend t", 3) == ["trio"]
    assert "empty" in _completed("nsq-anyio channel ", 2)


def test_the_program_answers() -> None:
    answer = run(_NSQ_ANYIO_COMPLETE="bash_complete", COMP_WORDS="nsq-anyio st", COMP_CWORD="1")
    assert answer.stdout == b"plain,stat\n"


@pytest.mark.parametrize("flag", ["tail --tls-ca-file", "stat --http-client-tls-key", "nsqd --tls-cert"])
def test_paths_are_left_to_the_shell(flag: str) -> None:
    answer = run(_NSQ_ANYIO_COMPLETE="bash_complete", COMP_WORDS=f"nsq-anyio {flag} /etc/p", COMP_CWORD="3")
    assert answer.stdout == b"file,/etc/p\n"


def test_another_shell_is_refused() -> None:
    result = CliRunner().invoke(cli, ["completion", "tcsh"])
    assert result.exit_code == 2
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in result.stderr
