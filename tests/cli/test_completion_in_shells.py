"""The shells themselves complete with the scripts of ``nsq-anyio completion``, at a terminal."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import termios
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from .forwarders import embedded_nsqds
from .processes import LIMIT

BIN = str(Path(sys.executable).parent)
CLEAR_LINE = "\x15"
LINES_AND_COLUMNS = (40, 400)  # so that no shell shows only a part of the line

pytestmark = pytest.mark.skipif(
    shutil.which("nsq-anyio", path=BIN) is None or sys.platform != "linux",
    reason="needs the installed script, and setsid",
)

SHELLS = {
    "bash": (
        ["bash", "--norc", "--noprofile", "-i"],
        ["PS1='$ '; bind 'set enable-bracketed-paste off'", "source <(nsq-anyio completion bash)"],
    ),
    "zsh": (
        ["zsh", "-f", "-i"],
        [
            "PS1='$ '; unsetopt zle_bracketed_paste",
            "autoload -U compinit; compinit -u -D",
            'eval "$(nsq-anyio completion zsh)"',
        ],
    ),
    "fish": (
        ["fish", "--no-config", "-i"],
        ["function fish_prompt; echo -n '$ '; end", "nsq-anyio completion fish | source"],
    ),
}
EACH_SHELL = [
    pytest.param(name, marks=pytest.mark.skipif(shutil.which(name) is None, reason=f"there is no {name}"))
    for name in SHELLS
]


def environment(home: Path) -> dict[str, str]:
    return {"HOME": str(home), "PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "TERM": "dumb"}


class Shell:
    """A shell at a terminal of its own."""

    def __init__(self, terminal: int) -> None:
        self._terminal = terminal

    def run(self, command: str) -> None:
        """Run a command to its end."""
        self._type(f"{command}; echo do''ne\n", until="done\r\n")

    def completes(self, line: str, end: str) -> None:
        """Check that Tab makes a line end with ``end``."""
        self._type(f"{CLEAR_LINE}{line}\t", until=end)

    def _type(self, text: str, until: str) -> None:
        """Type, and wait for what the terminal shows then."""
        os.write(self._terminal, text.encode())
        shown = ""
        give_up_at = time.monotonic() + LIMIT
        while until not in shown.replace("\a", ""):
            left = give_up_at - time.monotonic()
            assert left > 0, f"no {until!r} in {shown!r}"
            if select.select([self._terminal], [], [], left)[0]:
                shown += os.read(self._terminal, 4096).decode()


@contextmanager
def started(name: str, home: Path) -> Generator[Shell]:
    command, commands = SHELLS[name]
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, LINES_AND_COLUMNS)
    # A shell reads lines only from the terminal that controls it, hence setsid.
    with subprocess.Popen(
        ["setsid", "--ctty", *command], stdin=theirs, stdout=theirs, stderr=theirs, env=environment(home)
    ) as process:
        os.close(theirs)
        try:
            shell = Shell(ours)
            for each in commands:
                shell.run(each)
            yield shell
        finally:
            process.kill()
            os.close(ours)


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    path = tmp_path / "certificate.pem"
    path.touch()
    return path


@pytest.fixture(scope="module")
def servers() -> Generator[tuple[str, str, str]]:
    """An nsqlookupd, and the TCP and HTTP addresses of an nsqd with a topic and two channels."""
    with embedded_nsqds(1) as (nsqlookupd, (nsqd,)):
        for path in (
            "topic/create?topic=clicks",
            "channel/create?topic=clicks&channel=archive",
            "channel/create?topic=clicks&channel=tail1%23ephemeral",
        ):
            assert httpx.post(f"{nsqd.http_url}/{path}", trust_env=False).status_code == 200
        yield nsqlookupd.removeprefix("http://"), nsqd.tcp_address, nsqd.http_url.removeprefix("http://")


@pytest.mark.parametrize("name", EACH_SHELL)
def test_a_shell_completes(name: str, certificate: Path, servers: tuple[str, str, str]) -> None:
    nsqlookupd, tcp, http = servers
    cluster = f"--lookupd-http-address {nsqlookupd}"
    file = str(certificate)
    cases: Sequence[tuple[str, str]] = (
        ("nsq-anyio tai", "nsq-anyio tail "),
        ("nsq-anyio tail --lookupd-h", " --lookupd-http-address "),
        ("nsq-anyio tail --backend tr", " --backend trio "),
        (f"nsq-anyio tail --tls-ca-file {file[:-5]}", f" --tls-ca-file {file}"),
        (f"nsq-anyio tail --tls-ca-file={file[:-5]}", f" --tls-ca-file={file}"),
        (f"nsq-anyio tail {cluster} --topic cl", " --topic clicks "),
        (f"true; nsq-anyio tail -lookupd-http-address={nsqlookupd} -topic=cl", " -topic=clicks "),
        (f"nsq-anyio channel pause {cluster} clicks ar", " clicks archive "),
        (f"nsq-anyio stat {cluster} --nsqd-http-address {http[:-1]}", f" --nsqd-http-address {http} "),
        (f"nsq-anyio pub {cluster} --nsqd-tcp-address={tcp[:-1]}", f" --nsqd-tcp-address={tcp} "),
    )
    with started(name, certificate.parent) as shell:
        for line, end in cases:
            shell.completes(line, end)


@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish")
def test_descriptions_are_whole(tmp_path: Path) -> None:
    program = "nsq-anyio completion fish | source; complete -C 'nsq-anyio topi'"
    done = subprocess.run(
        ["fish", "--no-config", "-c", program],
        env=environment(tmp_path),
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=True,
    )
    assert done.stdout == "topic\tList, create, delete, empty, pause and unpause topics across a cluster.\n"
