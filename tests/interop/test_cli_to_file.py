"""``nsq-anyio to-file`` as a process of its own: beside nsq_to_file, killed, on a full disk, and reopened."""

from __future__ import annotations

import signal
import sys
import zlib
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import anyio
import pytest

from ..real_servers import program
from .cluster import KINDS, Cluster, Kind, Server
from .observe import LIMIT, until, until_told
from .to_file import TO_FILE, running

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),
    pytest.mark.timeout(120),
]

LIMITED = (
    "import resource, runpy, sys; "
    "resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv.pop(1)), resource.RLIM_INFINITY)); "
    "runpy.run_module('nsq_anyio', run_name='__main__', alter_sys=True)"
)
"""Runs the command where no file can grow beyond a size, as on a full disk."""


async def until_drained(nsqd: Server, topic: str = "t", channel: str = "nsq_to_file") -> None:
    """Wait until nothing waits in the channel any more, and no answer is awaited."""

    async def is_drained() -> bool:
        found = await nsqd.channel(topic, channel)
        return not (found.depth or found.in_flight_count or found.deferred_count)

    await until_told(is_drained, 2 * LIMIT)


def content(directory: Path) -> bytes:
    """What all files hold; of a compressed one, what its whole members hold."""
    return b"".join(decoded(path) for path in sorted(directory.rglob("*")) if path.is_file())


def decoded(path: Path) -> bytes:
    data = path.read_bytes()
    if path.suffix != ".gz":
        return data
    text = b""
    while data:
        member = zlib.decompressobj(16 + zlib.MAX_WBITS)
        part = member.decompress(data)
        if not member.eof:
            break  # cut by a kill: it was not acknowledged
        text += part
        data = member.unused_data
    return text


def holds_more_than(directory: Path, size: int) -> bool:
    return len(content(directory)) > size


def has_files(directory: Path) -> bool:
    return any(directory.iterdir())


def bodies(count: int, start: int = 0) -> list[bytes]:
    return [b"message %d" % number for number in range(start, start + count)]


@pytest.mark.parametrize(
    "flags",
    [
        (),
        ("--gzip", "--gzip-level=1"),
        ("--rotate-size=2000",),
        ("--filename-format=<TOPIC>/<DATETIME>/x<REV>.txt", "--datetime-format=%Y", "--host-identifier=h"),
        ("--work-dir=work", "--rotate-interval=1h"),
    ],
    ids=lambda flags: flags[0] if flags else "plain",
)
async def test_the_same_files_as_nsq_to_file(cluster: Cluster, tmp_path: Path, flags: Sequence[str]) -> None:
    nsqd = await cluster.nsqd("real", channels={"t": ["ours", "theirs"]})
    sent = bodies(1000)
    await nsqd.publish("t", *sent)
    common = ("--topic=t", f"--nsqd-tcp-address={nsqd.tcp_address}", "--sync-interval=200ms", *flags)
    for channel, command in (("ours", TO_FILE), ("theirs", (str(program("nsq_to_file")),))):
        output = tmp_path / channel
        output.mkdir()
        async with running(
            tmp_path,
            *(flag.replace("=work", f"={tmp_path / 'work' / channel}") for flag in common),
            f"--channel={channel}",
            f"--output-dir={output}",
            command=command,
        ) as archiver:
            await until_drained(nsqd, channel=channel)
            assert await archiver.end() == 0, archiver.log
    names: list[list[str]] = []
    lines: list[list[int]] = []
    for channel in ("ours", "theirs"):
        output = tmp_path / channel
        files = sorted(path for path in output.rglob("*") if path.is_file())
        names.append([str(path.relative_to(output)) for path in files])
        lines.append([len(decoded(path).splitlines()) for path in files])
        assert sorted(content(output).splitlines()) == sorted(sent)
    assert names[0] == names[1]
    if flags != ("--rotate-size=2000",):  # the order of messages decides there where a file ends
        assert lines[0] == lines[1]


@pytest.mark.parametrize("flags", [(), ("--gzip",), ("--skip-empty-files",)], ids=str)
async def test_the_same_files_for_a_topic_without_messages(
    cluster: Cluster, tmp_path: Path, flags: Sequence[str]
) -> None:
    nsqd = await cluster.nsqd("real", channels={"t": ["ours", "theirs"]})
    names: list[list[str]] = []
    for channel, command in (("ours", TO_FILE), ("theirs", (str(program("nsq_to_file")),))):
        output = tmp_path / channel
        output.mkdir()
        async with running(
            tmp_path,
            "--topic=t",
            f"--channel={channel}",
            f"--nsqd-tcp-address={nsqd.tcp_address}",
            "--sync-interval=50ms",
            f"--output-dir={output}",
            *flags,
            command=command,
        ) as archiver:

            async def is_connected(channel: str = channel) -> bool:
                return (await nsqd.channel("t", channel)).client_count == 1

            await until_told(is_connected)
            if "--skip-empty-files" in flags:
                await anyio.sleep(0.2)  # four intervals, in which nothing is to happen
            else:
                await until(partial(has_files, output))
            assert await archiver.end() == 0, archiver.log
        assert content(output) == b""
        names.append(sorted(path.name for path in output.iterdir()))
    assert names[0] == names[1]
    assert len(names[0]) == (0 if "--skip-empty-files" in flags else 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
async def test_sigterm_syncs_finishes_and_ends_with_0(
    cluster: Cluster, tmp_path: Path, kind: Kind, backend: str
) -> None:
    nsqd = await cluster.nsqd(kind, channels={"t": ["nsq_to_file"]})
    output = tmp_path / "output"
    await nsqd.publish("t", b"a", b"b\nc", b"\0\xff")
    async with running(
        tmp_path,
        "--topic=t",
        f"--nsqd-tcp-address={nsqd.tcp_address}",
        f"--output-dir={output}",
        f"--backend={backend}",
        "--sync-interval=10m",
    ) as archiver:
        await until(lambda: content(output) == b"a\nb\nc\n\0\xff\n")
        assert (await nsqd.channel("t", "nsq_to_file")).in_flight_count == 3
        assert await archiver.end() == 0, archiver.log
    await until_drained(nsqd)


@pytest.mark.parametrize("flags", [(), ("--gzip",), ("--work-dir=work", "--rotate-size=30000")], ids=str)
async def test_killed_again_and_again_nothing_is_lost(
    cluster: Cluster, tmp_path: Path, flags: Sequence[str]
) -> None:
    nsqd = await cluster.nsqd("real", channels={"t": ["nsq_to_file"]})
    output = tmp_path / "output"
    work = tmp_path / "work"
    arguments = (
        "--topic=t",
        f"--nsqd-tcp-address={nsqd.tcp_address}",
        f"--output-dir={output}",
        *(flag.replace("=work", f"={work}") for flag in flags),
        "--consumer-opt=msg_timeout,1s",
        "--sync-interval=50ms",
    )
    sent: list[bytes] = []
    done = anyio.Event()

    async def publish() -> None:
        while not done.is_set():
            batch = bodies(200, len(sent))
            await nsqd.publish("t", *batch)
            sent.extend(batch)
            await anyio.sleep(0.01)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(publish)
        for _ in range(4):
            before = len(content(output))
            async with running(tmp_path, *arguments) as archiver:
                await until(partial(holds_more_than, output, before + 5000))
                assert await archiver.end(signal.SIGKILL) == -signal.SIGKILL
        done.set()
    async with running(tmp_path, *arguments) as archiver:
        await until_drained(nsqd)
        assert await archiver.end() == 0, archiver.log
    found = set(content(output).splitlines()) | (
        set(content(work).splitlines()) if work.exists() else set[bytes]()
    )
    assert set(sent) <= found
    cut = found - set(sent)  # a line that a kill has cut has lost its end, and is no other's beginning
    assert all(any(line.startswith(part) for line in sent) for part in cut)


@pytest.mark.parametrize("flags", [(), ("--gzip",), ("--work-dir=work",)], ids=["plain", "gzip", "moved"])
async def test_a_full_disk_loses_nothing(cluster: Cluster, tmp_path: Path, flags: Sequence[str]) -> None:
    nsqd = await cluster.nsqd("real", channels={"t": ["nsq_to_file"]})
    output = tmp_path / "output"
    work = tmp_path / "work" if "--work-dir=work" in flags else output
    arguments = (
        "--topic=t",
        f"--nsqd-tcp-address={nsqd.tcp_address}",
        f"--output-dir={output}",
        "--sync-interval=200ms",  # the last messages wait for it
        *(flag.replace("=work", f"={work}") for flag in flags),
    )
    sent = bodies(5000)
    await nsqd.publish("t", *sent)
    async with running(
        tmp_path, *arguments, command=(sys.executable, "-c", LIMITED, "5000", "to-file")
    ) as full:
        assert await full.wait() == 1
    last = full.log.splitlines()[-1]
    assert last.startswith(f"Error: cannot write {work}/t.")
    assert "File too large; " in last
    assert last.endswith("messages go back to nsqd")
    assert "Traceback" not in full.log
    acknowledged = 5000 - (await nsqd.channel("t", "nsq_to_file")).depth
    assert 0 < acknowledged <= content(output).count(b"\n")
    if work != output:
        assert set(content(output).splitlines(keepends=True)) <= {body + b"\n" for body in sent}
        assert content(work) == b""
    async with running(tmp_path, *arguments) as archiver:
        await until_drained(nsqd)
        assert await archiver.end() == 0, archiver.log
    assert set(sent) <= set(content(output).splitlines())


async def test_hangup_reopens(cluster: Cluster, tmp_path: Path) -> None:
    nsqd = await cluster.nsqd("real", channels={"t": ["nsq_to_file"]})
    output = tmp_path / "output"
    path = output / "t.log"
    async with running(
        tmp_path,
        "--topic=t",
        f"--nsqd-tcp-address={nsqd.tcp_address}",
        f"--output-dir={output}",
        "--filename-format=<TOPIC>.log",
    ) as archiver:
        await nsqd.publish("t", b"a")
        await until(lambda: content(output) == b"a\n")
        path.rename(output / "t.1")
        archiver.process.send_signal(signal.SIGHUP)
        await until_drained(nsqd)
        await nsqd.publish("t", b"b")
        await until(lambda: path.exists() and path.read_bytes() == b"b\n")
        assert await archiver.end() == 0, archiver.log
    assert (output / "t.1").read_bytes() == b"a\n"


@pytest.mark.parametrize("kind", KINDS)
async def test_topics_that_match_as_they_come(cluster: Cluster, tmp_path: Path, kind: Kind) -> None:
    lookupd = await cluster.nsqlookupd(kind)
    nsqd = await cluster.nsqd(kind, lookupds=[lookupd])
    output = tmp_path / "output"
    for topic in ("a.x", "..", "other"):
        await nsqd.publish(topic, topic.encode())
    async with lookupd.lookup_http() as http:

        async def are_known() -> bool:
            return len(await http.topics()) == 3

        await until_told(are_known)
    async with running(
        tmp_path,
        r"--topic-pattern=^a\.|^\.\.$",
        f"--lookupd-http-address={lookupd.http_address}",
        f"--output-dir={output}",
        "--filename-format=<TOPIC>/log",
        "--topic-refresh=200ms",
    ) as archiver:
        await until(lambda: content(output) == b"..\na.x\n")
        await nsqd.publish("a.y", b"later")
        await until(lambda: content(output) == b"..\na.x\nlater\n")
        assert await archiver.end() == 0, archiver.log
    assert {str(path.relative_to(output)) for path in output.rglob("log")} == {
        "%2E%2E/log",
        "a.x/log",
        "a.y/log",
    }
    assert not (tmp_path / "log").exists()


async def test_zstd(cluster: Cluster, tmp_path: Path) -> None:
    nsqd = await cluster.nsqd("real", channels={"t": ["nsq_to_file"]})
    sent = bodies(1000)
    await nsqd.publish("t", *sent)
    async with running(
        tmp_path,
        "--topic=t",
        f"--nsqd-tcp-address={nsqd.tcp_address}",
        f"--output-dir={tmp_path / 'output'}",
        "--zstd",
        "--sync-interval=200ms",
    ) as archiver:
        await until_drained(nsqd)
        assert await archiver.end() == 0, archiver.log
    (path,) = (tmp_path / "output").iterdir()
    assert path.suffix == ".zst"
    assert sorted(zstd.decompress(path.read_bytes()).splitlines()) == sorted(sent)
