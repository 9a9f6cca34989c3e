"""The code of docs/faststream.md runs; its blocks are not marked as those of tests/test_docs.py are."""

from __future__ import annotations

import re
import signal
import sys
from pathlib import Path

import anyio
import pytest
from faststream_nsq import NsqBroker

from ..interop.cluster import Server
from ..interop.observe import until
from ..processes import ending
from .running import running

pytestmark = pytest.mark.anyio

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "faststream.md").read_text("utf-8")
BLOCK = re.compile(r"^```\{code-block\} python\n(?::caption: (\S+)\n\n)?(.*?)^```$", re.MULTILINE | re.DOTALL)
FILES = {name: code for name, code in BLOCK.findall(PAGE) if name}
README = (ROOT / "contrib" / "faststream-nsq" / "README.md").read_text("utf-8")
BLOCKS = [
    *(code for name, code in BLOCK.findall(PAGE) if not name),
    *re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL),
]


def written(directory: Path, nsqd: str) -> None:
    """Write the files of the page into a directory."""
    for name, code in FILES.items():
        (directory / name).write_text(code.replace("127.0.0.1:4150", nsqd), encoding="utf-8")


async def test_the_service_runs(nsqd: Server, tmp_path: Path) -> None:
    written(tmp_path, nsqd.tcp_address)
    log = tmp_path / "log"
    command = [sys.executable, "-u", "-m", "faststream", "run", "service:app"]
    with log.open("wb") as file:
        process = await anyio.open_process(command, cwd=tmp_path, stdout=file, stderr=file)
    async with ending(process):
        await until(lambda: "resized small-cat.png" in log.read_text(), limit=45)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    assert (await nsqd.channel("images", "resizer")).deferred_count == 1  # the one that comes in a minute


async def test_the_test_of_the_service_passes(tmp_path: Path) -> None:
    written(tmp_path, "127.0.0.1:1")
    call = "import anyio, test_service; anyio.run(test_service.test_images_are_resized); print('passed')"
    done = await anyio.run_process([sys.executable, "-c", call], cwd=tmp_path, check=False)
    assert done.stdout.endswith(b"passed\n"), done.stderr.decode()


@pytest.mark.parametrize("number", range(len(BLOCKS)))
async def test_other_code_declares_a_broker_that_starts(nsqd: Server, number: int) -> None:
    names: dict[str, object] = {"__name__": "example"}
    code = BLOCKS[number].replace("127.0.0.1:4150", nsqd.tcp_address)
    exec(compile(code, f"faststream.md-{number}", "exec"), names)
    broker = names["broker"]
    assert isinstance(broker, NsqBroker)
    async with running(broker):
        assert await broker.ping()


def test_the_page_has_code() -> None:
    assert set(FILES) == {"service.py", "test_service.py"}
    assert len(BLOCKS) == PAGE.count("```{code-block} python") - len(FILES) + 1
