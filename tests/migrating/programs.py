"""The programs of docs/migrating/, and what each of them prints."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import anyio

from ..real_servers import RealServer

DOCS = Path(__file__).parents[2] / "docs" / "migrating"
PAGES = ("pynsq", "gnsq", "asyncnsq", "ansq", "go-nsq")
LIMIT = 60.0
PRINTED = ["gave up broken.png", "made cat.png", "made dog.png", "made late.png"]

_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def after(page: str) -> str:
    """The program of this client on a page, which is the last one there."""
    *_, program = _BLOCK.findall((DOCS / f"{page}.md").read_text("utf-8"))
    return str(program)


def pointed_at(program: str, server: RealServer) -> str:
    """The program with the address of a running nsqd."""
    host, port = server.tcp_address.split(":")
    moved = program.replace("127.0.0.1:4150", server.tcp_address)
    return moved.replace('host="127.0.0.1", port=4150', f'host="{host}", port={port}')


async def printed_by(command: Sequence[str], directory: Path) -> list[str]:
    """Run a program to its end; return the lines that it printed, sorted."""
    with anyio.fail_after(LIMIT):
        done = await anyio.run_process(command, cwd=directory, check=False, env=os.environ)
    assert done.returncode == 0, done.stderr.decode()
    lines = done.stdout.decode().splitlines()
    return sorted(line for line in lines if line.startswith(("made", "gave up")))
