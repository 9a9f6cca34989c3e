"""The programs "after" in docs/migrating/ print what those "before" print."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ..migrating.programs import PAGES, PRINTED, after, pointed_at, printed_by
from ..real_servers import real_nsqd

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"], scope="module"),
    pytest.mark.timeout(120),
]


@pytest.mark.parametrize("page", PAGES)
async def test_a_migrated_program_does_the_same(page: str, tmp_path: Path) -> None:
    async with real_nsqd() as nsqd:
        program = tmp_path / "program.py"
        program.write_text(pointed_at(after(page), nsqd))
        assert await printed_by([sys.executable, str(program)], tmp_path) == PRINTED
