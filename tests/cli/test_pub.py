"""``nsq-anyio pub`` as a process, on embedded nsqds."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Generator, Sequence
from itertools import count
from pathlib import Path

import anyio
import httpx
import pytest
from click.testing import CliRunner

import nsq_anyio as nsq
from nsq_anyio.cli.backend import BACKENDS
from nsq_anyio.cli.main import cli

from .forwarders import Server, embedded_nsqds, flags, until
from .processes import LIMIT, end, read_terminal, run, running

DEAD = "127.0.0.1:1"

_numbers = count(1)


@pytest.fixture(scope="module")
def nsqds() -> Generator[list[Server]]:
    with embedded_nsqds(2, registered=False) as (_, found):
        yield found


@pytest.fixture
def nsqd(nsqds: list[Server]) -> Server:
    return nsqds[0]


@pytest.fixture
def topic(nsqds: list[Server]) -> str:
    """A topic of its own, with a channel ``c``, on both nsqds."""
    name = f"topic-{next(_numbers)}"
    for nsqd in nsqds:
        for path in (f"topic/create?topic={name}", f"channel/create?topic={name}&channel=c"):
            assert httpx.post(f"{nsqd.http_url}/{path}", trust_env=False).status_code == 200
    return name


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return f"--backend={name}"


def pub(nsqd: Server | list[Server], topic: str, *more: str) -> list[str]:
    nsqds = nsqd if isinstance(nsqd, list) else [nsqd]
    return ["pub", *flags(topic=topic, nsqd_tcp_address=[each.tcp_address for each in nsqds]), *more]


def depth(nsqd: Server, topic: str) -> int:
    """How many messages came."""
    found: int = nsqd.channel(topic, "c")["depth"]
    return found


def published(nsqd: Server, topic: str) -> list[bytes]:
    """All that came, in order."""
    number = depth(nsqd, topic)

    async def take() -> list[bytes]:
        bodies: list[bytes] = []
        with anyio.fail_after(LIMIT):
            async with nsq.consume(topic, "c", nsqd=nsqd.tcp_address, max_in_flight=100) as consumer:
                while len(bodies) < number:
                    message = await anext(consumer)
                    message.finish()
                    bodies.append(message.body)
        return bodies

    return anyio.run(take)


@pytest.mark.parametrize("last", [b"last\n", b"last", b"last\n\n\n"])
def test_lines_of_standard_input(nsqd: Server, topic: str, last: bytes, backend: str) -> None:
    done = run(*pub(nsqd, topic, backend), data=b"\nfirst\n\n \xff\x00\r\n" + last)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert published(nsqd, topic) == [b"first", b" \xff\x00\r", b"last"]


@pytest.mark.parametrize(
    ("delimiter", "between"), [(r"\0", b"\0"), ("--", b"--"), (r"\xff\n", b"\xff\n"), ("\udcfe", b"\xfe")]
)
def test_any_bytes_stand_between(nsqd: Server, topic: str, delimiter: str, between: bytes) -> None:
    bodies = [b"a\nb", b"+", b"\xff", b"x" * 200_000, b"end"]
    assert run(*pub(nsqd, topic, "--delimiter", delimiter), data=between.join(bodies)).returncode == 0
    assert published(nsqd, topic) == bodies


def test_a_delimiter_that_comes_in_two_pieces(nsqd: Server, topic: str) -> None:
    with running(*pub(nsqd, topic, "--delimiter", r"\r\n")) as process:
        assert process.stdin is not None
        for piece, number in ((b"a\r\nb\r", 1), (b"\nc\r", 2), (b"x\r\n", 3)):
            process.stdin.write(piece)
            process.stdin.flush()
            # At once: whoever writes may wait for what comes of it.
            until(lambda number=number: depth(nsqd, topic) == number)  # type: ignore[misc]
        process.stdin.close()
        assert process.wait(LIMIT) == 0
    assert published(nsqd, topic) == [b"a", b"b", b"c\rx"]


def test_files_and_standard_input(nsqd: Server, topic: str, tmp_path: Path, backend: str) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.write_bytes(b"a\nb")  # what ends with its file does not run into the next
    second.write_bytes(b"d\n")
    done = run(*pub(nsqd, topic, str(first), "-", str(second), backend), data=b"c")
    assert (done.returncode, done.stderr) == (0, b"")
    assert published(nsqd, topic) == [b"a", b"b", b"c", b"d"]


def test_no_messages(nsqd: Server, topic: str) -> None:
    assert run(*pub(nsqd, topic), data=b"\n\n").returncode == 0
    assert depth(nsqd, topic) == 0


def test_flags_as_to_nsq_takes_them(nsqd: Server, topic: str) -> None:
    given = [f"-nsqd-tcp-address={nsqd.tcp_address}", f"-topic={topic}", "-delimiter", ",", "-rate=1000"]
    given.append("-producer-opt=dial_timeout,2s")
    assert run("pub", *given, data=b"a,b").returncode == 0
    assert published(nsqd, topic) == [b"a", b"b"]


def test_each_of_several_nsqds_gets_all(nsqds: list[Server], topic: str, backend: str) -> None:
    bodies = [b"%d" % number for number in range(1000)]
    assert run(*pub(nsqds, topic, backend), data=b"\n".join(bodies)).returncode == 0
    assert [published(nsqd, topic) for nsqd in nsqds] == [bodies, bodies]


@pytest.mark.parametrize("mode", ["round-robin", "least-outstanding", "hostpool", "epsilon-greedy"])
def test_one_of_several_nsqds_gets_it(nsqds: list[Server], topic: str, mode: str) -> None:
    bodies = [b"%d" % number for number in range(20)]
    # The rate makes many small batches of it.
    assert run(*pub(nsqds, topic, "--mode", mode, "--rate=100"), data=b"\n".join(bodies)).returncode == 0
    found = [published(nsqd, topic) for nsqd in nsqds]
    assert sorted(found[0] + found[1]) == sorted(bodies)
    if mode == "round-robin":
        assert all(found)


def test_a_rate(nsqd: Server, topic: str, backend: str) -> None:
    started_at = time.monotonic()
    assert run(*pub(nsqd, topic, "--rate=50", backend), data=b"a\n" * 51).returncode == 0
    assert time.monotonic() - started_at >= 0.95
    assert depth(nsqd, topic) == 51


def test_progress_on_a_terminal(nsqd: Server, topic: str, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_bytes(b"a\n" * 1234)
    shown = on_terminal(*pub(nsqd, topic, str(lines)))
    assert "1,234 messages" in shown
    assert "2.5/2.5 kB" in shown or "2.5 kB" in shown
    assert "messages/s" in shown
    assert on_terminal(*pub(nsqd, topic, str(lines), "-q")) == ""
    assert depth(nsqd, topic) == 2 * 1234


def on_terminal(*arguments: str) -> str:
    """What a command that succeeds shows on a terminal, where its errors go."""
    ours, theirs = os.openpty()
    try:
        with running(*arguments, stderr=theirs, env={"COLUMNS": "120"}) as process:
            os.close(theirs)
            shown = read_terminal(ours).decode()
            assert process.wait(LIMIT) == 0
            return shown
    finally:
        os.close(ours)


def test_a_message_that_is_too_large(nsqd: Server, topic: str, tmp_path: Path, backend: str) -> None:
    lines = tmp_path / "lines"
    lines.write_bytes(b"a\nb\n" + b"x" * 1_048_577 + b"\nnever\n")
    done = run(*pub(nsqd, topic, str(lines), backend))
    assert done.returncode == 3
    assert done.stderr.decode() == (
        f"Error: message 3 of {lines} has more than 1048576 bytes: if nsqd accepts more (its "
        "--max-msg-size), use --producer-opt max_msg_size,BYTES; 2 messages were published before\n"
    )
    assert published(nsqd, topic) == [b"a", b"b"]


def test_what_nsqd_refuses(nsqd: Server, topic: str) -> None:
    """nsqd itself has the smaller bound here."""
    done = run(*pub(nsqd, topic, "--producer-opt=max_msg_size,3000000"), data=b"a\n" + b"x" * 2_000_000)
    assert done.returncode == 3
    assert b"; 1 message was published before" in done.stderr
    assert b"Traceback" not in done.stderr
    assert published(nsqd, topic) == [b"a"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_reading(nsqd: Server, topic: str, number: signal.Signals, backend: str) -> None:
    with running(*pub(nsqd, topic, backend)) as process:
        assert process.stdin is not None
        process.stdin.write(b"a\nb\nhalf")
        process.stdin.flush()
        until(lambda: depth(nsqd, topic) == 2)
        _, log = end(process, number)
    warning, note = log.splitlines()
    assert "the last 4 bytes are not published: no delimiter follows them" in warning
    assert note == "stopped before the end of the input: 2 messages were published"
    assert published(nsqd, topic) == [b"a", b"b"]


def test_what_was_read_is_published_without_regard_to_the_rate(
    nsqd: Server, topic: str, backend: str
) -> None:
    with running(*pub(nsqd, topic, "--rate=1", backend)) as process:
        assert process.stdin is not None
        process.stdin.write(b"a\nb\nc\n")
        process.stdin.flush()
        until(lambda: depth(nsqd, topic) == 1)
        _, log = end(process)
    assert log == "stopped before the end of the input: 3 messages were published\n"
    assert published(nsqd, topic) == [b"a", b"b", b"c"]


def test_a_signal_in_the_middle_of_a_file(nsqd: Server, topic: str, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_bytes(b"".join(b"%d\n" % number for number in range(200_000)))
    with running(*pub(nsqd, topic, str(lines), "--rate=20")) as process:
        until(lambda: depth(nsqd, topic) > 1)
        _, log = end(process)
    told = int(log.removeprefix("stopped before the end of the input: ").partition(" ")[0])
    assert 0 < told < 1000
    assert depth(nsqd, topic) == told
    assert published(nsqd, topic) == [b"%d" % number for number in range(told)]


@pytest.mark.parametrize("mode", ["all", "round-robin"])
def test_nobody_is_there(mode: str, backend: str) -> None:
    """It says so at once, and does not wait for its input."""
    with running(*flags_to_dead("pub", mode), backend) as process:
        assert process.wait(LIMIT) == 1
        assert process.stderr is not None
        (line,) = process.stderr.read().decode().splitlines()
    assert line.startswith("Error: ")
    assert DEAD in line


def flags_to_dead(command: str, mode: str) -> Sequence[str]:
    return (command, "--topic=t", f"--nsqd-tcp-address={DEAD}", f"--mode={mode}")


def test_one_of_two_is_there(nsqd: Server, topic: str) -> None:
    both = [*pub(nsqd, topic), f"--nsqd-tcp-address={DEAD}"]
    done = run(*both, data=b"a\n")
    assert (done.returncode, depth(nsqd, topic)) == (1, 0)
    assert DEAD in done.stderr.decode()
    assert run(*both, "--mode=round-robin", data=b"a\n").returncode == 0
    assert published(nsqd, topic) == [b"a"]


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="of Linux")
def test_a_file_that_cannot_be_read(nsqd: Server, topic: str) -> None:
    done = run(*pub(nsqd, topic, "-", "/proc/self/mem"), data=b"a\n")
    assert done.returncode == 3
    assert done.stderr.decode().startswith("Error: cannot read /proc/self/mem: ")
    assert done.stderr.decode().endswith("; 1 message was published before\n")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--topic=t"], "use --nsqd-tcp-address or --lookupd-http-address, or both"),
        ([f"--nsqd-tcp-address={DEAD}"], "Missing option '--topic'"),
        (["--topic=a b", f"--nsqd-tcp-address={DEAD}"], "a b"),
        (["--topic=t", "--nsqd-tcp-address=nowhere"], "nowhere"),
        (["--topic=t", "--delimiter=", f"--nsqd-tcp-address={DEAD}"], "the delimiter is empty"),
        (["--topic=t", "--rate=-1", f"--nsqd-tcp-address={DEAD}"], "-1"),
        (["--topic=t", "--mode=any", f"--nsqd-tcp-address={DEAD}"], "any"),
        (["--topic=t", "--producer-opt=nonsense,1", f"--nsqd-tcp-address={DEAD}"], "nonsense"),
        (["--topic=t", f"--nsqd-tcp-address={DEAD}", "/nowhere"], "/nowhere"),
    ],
)
def test_a_wrong_command_line(arguments: list[str], problem: str) -> None:
    result = CliRunner().invoke(cli, ["pub", *arguments], prog_name="nsq-anyio")
    assert result.exit_code == 2, result.output
    assert problem in result.stderr.splitlines()[-1]


def test_help_has_an_example() -> None:
    result = CliRunner().invoke(cli, ["pub", "-h"], prog_name="nsq-anyio")
    assert result.exit_code == 0
    assert "nsq-anyio pub clicks.log --topic clicks --rate 1000" in result.stdout
