"""The programs of other clients in docs/migrating/ do what the pages say.

`nox -s migrating` installs the clients.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from ..real_servers import real_nsqd
from ..servers import build as servers
from .programs import DOCS, PAGES, PRINTED, pointed_at, printed_by

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="module"),
    pytest.mark.timeout(180),
]

BEFORE = DOCS / "before"
MODULE = Path(__file__).parents[1] / "benchmarks" / "go_nsq"


@pytest.mark.parametrize("page", [page for page in PAGES if page != "go-nsq"])
async def test_the_program_in_python(page: str, tmp_path: Path) -> None:
    async with real_nsqd() as nsqd:
        program = tmp_path / "program.py"
        program.write_text(pointed_at((BEFORE / f"with_{page}.py").read_text("utf-8"), nsqd))
        assert await printed_by([sys.executable, str(program)], tmp_path) == PRINTED


async def test_the_program_in_go(tmp_path: Path) -> None:
    for name in ("go.mod", "go.sum"):
        shutil.copy(MODULE / name, tmp_path)
    async with real_nsqd() as nsqd:
        program = (BEFORE / "go_nsq" / "main.go").read_text("utf-8")
        (tmp_path / "main.go").write_text(pointed_at(program, nsqd))
        go = servers.find_go(servers.DIRECTORY.parent)
        servers.run([go, "build", "-buildvcs=false", "-o", "program", "."], tmp_path)
        assert await printed_by([str(tmp_path / "program")], tmp_path) == PRINTED
