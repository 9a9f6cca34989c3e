"""On a terminal of 80 columns nothing is cut: no name, no number, no line of help."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from collections.abc import Generator, Mapping

import anyio.from_thread
import httpx
import pytest
from rich.console import Console
from rich.progress import TextColumn

import nsq_anyio as nsq
from nsq_anyio.cli.display import new_table, progress_display

from .forwarders import Server, embedded_nsqds
from .processes import COMMAND, LIMIT, read_terminal

if sys.platform == "win32":
    pytest.skip("there are no pseudo-terminals", allow_module_level=True)

import termios

WIDTH = 80
TOPIC = "a-topic-of-sixty-four-characters." + "t" * 31
CHANNEL = "a-channel-of-sixty-four-characters." + "c" * 29
HOST = "ip-10-0-0-5.a-long-name-of-a-region.compute.internal.example.com"
ERROR = "the-database-at-db.internal.example.com:5432-did-not-answer-in-30-s"

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
_REDRAWN = "\x1b[1A\x1b[2K"  # a display begins again


def shown(*arguments: str) -> list[str]:
    """The lines that a command leaves on a terminal of 80 columns."""
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (50, WIDTH))
    environment = {**os.environ, "TERM": "xterm-256color"}
    environment.pop("COLUMNS", None)
    with subprocess.Popen(
        [*COMMAND, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        text = read_terminal(ours).decode()
        os.close(ours)
        assert process.wait(LIMIT) == 0, text
    lines = _CONTROL.sub("", text.rpartition(_REDRAWN)[2]).replace("\r", "").splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert not any("…" in line for line in lines)
    return lines


def cells(lines: list[str], header: str) -> dict[str, str]:
    """The folded cells of each column that ``header``, a line, begins: put together again."""
    starts = [match.start() for match in re.finditer(r"\S+( \S+)*", header)]
    ends = [*starts[1:], WIDTH]
    names = [header[start:end].strip() for start, end in zip(starts, ends, strict=True)]
    parts = [[line[start:end].strip() for line in lines] for start, end in zip(starts, ends, strict=True)]
    return {name: "".join(part) for name, part in zip(names, parts, strict=True)}


@pytest.fixture(scope="module")
def cluster() -> Generator[tuple[str, Server]]:
    with embedded_nsqds(1) as (nsqlookupd, (nsqd,)):
        for path in ("topic/create?", f"channel/create?channel={CHANNEL}&"):
            assert httpx.post(f"{nsqd.http_url}/{path}topic={TOPIC}", trust_env=False).status_code == 200
        url = f"{nsqd.http_url}/mpub?topic={TOPIC}"
        assert httpx.post(url, content=b"x\n" * 1234, trust_env=False).status_code == 200
        yield nsqlookupd, nsqd


def test_stat_shows_each_name_above_its_numbers(cluster: tuple[str, Server]) -> None:
    lines = shown("stat", "--interval=50ms", "--count=1", f"--lookupd-http-address={cluster[0]}")
    header, *rest = lines
    assert " ".join(header.split()) == "in/s out/s depth disk inflt def req t-o msgs clients"
    *name, numbers = rest
    assert "".join(name) == f"{TOPIC}/{CHANNEL}"
    assert " ".join(numbers.split()) == "0 0 1,234 0 0 0 0 0 1,234 0"
    assert len(numbers) == len(header)


def test_a_node_with_long_names() -> None:
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(nsq.embedded.nsqlookupd()) as nsqlookupd,
        portal.wrap_async_context_manager(
            nsq.embedded.nsqd(lookupd_tcp_addresses=[nsqlookupd.tcp_address], broadcast_address=HOST)
        ) as nsqd,
    ):
        assert httpx.post(f"{nsqd.http_url}/topic/create?topic={TOPIC}", trust_env=False).status_code == 200
        header, *lines = shown("node", "list", f"--lookupd-http-address={nsqlookupd.http_url}")
        found = cells(lines, header)
        assert found["node"] == f"{HOST}:{nsqd.http_url.rpartition(':')[2]}"
        assert found["topics"] == TOPIC
        assert found["TCP port"] == nsqd.tcp_address.rpartition(":")[2]


def test_dead_letters_are_blocks_of_lines(cluster: tuple[str, Server]) -> None:
    nsqd = cluster[1]

    async def discard() -> str:
        async with nsq.produce(nsqd.tcp_address) as producer:
            await producer.publish("dying", b"x")
            dead_letter = nsq.DeadLetter("dying.dead", producer=producer)
            async with nsq.consume(
                "dying", CHANNEL, nsqd=nsqd.tcp_address, dead_letter=dead_letter
            ) as consumer:
                async with await anext(consumer) as message:
                    raise nsq.Discard(ERROR)
            return message.id

    with anyio.from_thread.start_blocking_portal() as portal:
        portal.call(discard)
    lines = shown("dead-letter", "list", "--topic=dying.dead", f"--nsqd-tcp-address={nsqd.tcp_address}")
    text = "".join(lines)
    assert re.fullmatch(
        r"127[.]0[.]0[.]1:\d+/[0-9a-f]{16}  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d  discarded  attempts 1", lines[0]
    )
    assert f"dying/{CHANNEL}" in text
    assert ERROR in text
    assert lines[-1] == "1 letter"


def test_the_table_of_a_demo() -> None:
    lines = shown("demo", "--messages", "20000")
    assert sum("127.0.0.1:" in line for line in lines) == 2
    (total,) = (line for line in lines if "all" in line)
    assert total.count("20,000") == 2  # published and finished


@pytest.mark.parametrize("width", [40, 60, 80])
def test_a_table_hides_nothing(width: int) -> None:
    names, numbers = [TOPIC, CHANNEL, HOST], [1234567890, 9876543210]
    table = new_table(*"abc", numbers=[*"de"])
    table.add_row(*names, *map(str, numbers))
    text = io.StringIO()
    Console(width=width, file=text).print(table)
    rows = [line.strip("│\n").split("│") for line in text.getvalue().splitlines() if line.startswith("│")]
    found = ["".join(cell.strip() for cell in column) for column in zip(*rows, strict=True)]
    assert found == [*names, *map(str, numbers)]


def test_progress_hides_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    environment: Mapping[str, str] = {"TERM": "xterm-256color", "COLUMNS": str(WIDTH), "LINES": "24"}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    text = "12,345,678,901 rows, 123,456,789 rows/s; 12,345,678,901 in all, lag 12,345,678,901"
    display = progress_display(TextColumn("{task.description}"), TextColumn("98,765"), shown=True)
    display.add_task(text, total=None)
    out = io.StringIO()
    Console(width=WIDTH, file=out).print(display.make_tasks_table(display.tasks))
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert "…" not in out.getvalue()
    assert set(re.findall(r"[\d,]*\d", out.getvalue())) == {"12,345,678,901", "123,456,789", "98,765"}
