"""The shells themselves complete with the scripts of ``nsq-anyio completion``."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .processes import LIMIT

BIN = str(Path(sys.executable).parent)

pytestmark = pytest.mark.skipif(
    shutil.which("nsq-anyio", path=BIN) is None or sys.platform == "win32",
    reason="needs the installed script",
)


def environment(home: Path) -> dict[str, str]:
    return {"HOME": str(home), "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "TERM": "dumb"}


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    path = tmp_path / "certificate.pem"
    path.touch()
    return path


def in_bash(line: str, home: Path) -> list[str]:
    """What bash offers for the last word of ``line``."""
    program = (
        'source <(nsq-anyio completion bash); COMP_WORDS=($1); [ "${1: -1}" = " " ] && COMP_WORDS+=("")\n'
        "COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _nsq_anyio_completion nsq-anyio\n"
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", program, "bash", line],
        env=environment(home),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=True,
    )
    return done.stdout.split()


def in_fish(line: str, home: Path) -> list[str]:
    """The same for fish, without the descriptions."""
    program = "nsq-anyio completion fish | source; complete -C $argv[1]"
    done = subprocess.run(
        ["fish", "--no-config", "-c", program, line],
        env=environment(home),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=True,
    )
    return [each.partition("\t")[0] for each in done.stdout.splitlines()]


SHELLS = [
    pytest.param(
        complete, marks=pytest.mark.skipif(shutil.which(name) is None, reason=f"there is no {name}"), id=name
    )
    for name, complete in (("bash", in_bash), ("fish", in_fish))
]


@pytest.mark.parametrize("complete", SHELLS)
def test_commands_flags_values_and_paths(
    complete: Callable[[str, Path], list[str]], certificate: Path
) -> None:
    home = certificate.parent

    def offered(line: str) -> set[str]:
        return set(complete(line, home))

    assert offered("nsq-anyio t") == {"tail", "to-file", "to-http", "to-nsq", "topic"}
    assert offered("nsq-anyio tail --lookupd-h") == {"--lookupd-http-address"}
    assert offered("nsq-anyio tail --backend t") == {"trio"}
    if complete is in_fish:  # bash leaves paths to readline, which is not there without a terminal
        assert offered(f"nsq-anyio tail --tls-ca-file {home}/certi") == {str(certificate)}


@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish")
def test_fish_shows_descriptions_to_their_end(tmp_path: Path) -> None:
    program = "nsq-anyio completion fish | source; complete -C 'nsq-anyio topi'"
    done = subprocess.run(
        ["fish", "--no-config", "-c", program],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=True,
    )
    assert done.stdout.startswith("topic\tList, create,")


class Zsh:
    """A zsh at a terminal: its completion works nowhere else."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal

    def type(self, text: str, until: str) -> str:
        """Type, and wait for what the terminal shows then."""
        os.write(self._terminal, text.encode())
        shown = ""
        give_up_at = time.monotonic() + LIMIT
        while until not in shown:
            left = give_up_at - time.monotonic()
            assert left > 0, f"no {until!r} in {shown!r}"
            if select.select([self._terminal], [], [], left)[0]:
                shown += os.read(self._terminal, 4096).decode()
        return shown


@contextmanager
def zsh(home: Path) -> Generator[Zsh]:
    ours, theirs = pty.openpty()
    try:
        with subprocess.Popen(
            ["zsh", "-f", "-i"], stdin=theirs, stdout=theirs, stderr=theirs, env=environment(home)
        ) as process:
            os.close(theirs)
            try:
                shell = Zsh(ours)
                shell.type("PS1='$ '; unsetopt zle_bracketed_paste; echo rea''dy\n", until="ready\r\n")
                shell.type("autoload -U compinit; compinit -u -D; echo fou''nd\n", until="found\r\n")
                shell.type('eval "$(nsq-anyio completion zsh)"; echo ready\n', until="ready\r\n")
                yield shell
            finally:
                process.kill()
    finally:
        os.close(ours)


@pytest.mark.skipif(shutil.which("zsh") is None, reason="there is no zsh")
def test_zsh_completes_commands_flags_values_and_paths(certificate: Path) -> None:
    home = certificate.parent
    with zsh(home) as shell:
        shell.type("nsq-anyio tai\t", until="tail ")
        shell.type("--lookupd-h\t", until="ttp-address ")
        shell.type("x --backend t\t", until="rio ")
        shell.type(f"--tls-ca-file {home}/certi\t", until="ficate.pem")
