"""The command lines in the README and in docs/ are of commands and flags that there are."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from nsq_anyio.cli.lazy_group import subcommands
from nsq_anyio.cli.main import cli

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^```(?:console|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_PROGRAM = re.compile(r"(?:^|\$ |\| |/bin/)nsq-anyio (.*)")
_ENDS = {"|", ">", ">>", "<", "&&", ";", "&", "#"}


def _lines(page: Path) -> Iterator[str]:
    for block in _BLOCK.finditer(page.read_text(encoding="utf-8")):
        is_session = "$ " in block[1]
        for line in block[1].replace("\\\n", " ").splitlines():
            if (line.startswith("$ ") or not is_session) and (found := _PROGRAM.search(line)):
                yield found[1]


def _arguments(line: str) -> list[str]:
    words = shlex.split(line, comments=True)
    end = next((place for place, word in enumerate(words) if word in _ENDS), len(words))
    return words[:end]


LINES = [pytest.param(line, id=f"{page.stem}: {line[:60]}") for page in PAGES for line in _lines(page)]


def test_command_lines_are_found() -> None:
    assert len(LINES) > 20


@pytest.mark.parametrize("line", LINES)
def test_it_is_a_command_with_flags_that_there_are(line: str) -> None:
    words = _arguments(line)
    command: click.Command = cli
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        command = subcommands(command)[words.pop(0)]
    known = {flag for option in command.params for flag in option.opts} | {"-h", "--help", "--version"}
    used = {word.partition("=")[0] for word in words if re.match(r"--?[a-zA-Z]", word)}
    assert {flag if len(flag) == 2 or flag.startswith("--") else f"-{flag}" for flag in used} <= known
