"""``nsq-anyio tail`` as a process, on an embedded nsqd."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
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
def cluster() -> Generator[tuple[str, Server]]:
    with embedded_nsqds(1) as (lookupd_url, (nsqd,)):
        yield lookupd_url, nsqd


@pytest.fixture
def nsqd(cluster: tuple[str, Server]) -> Server:
    return cluster[1]


@pytest.fixture
def topic(nsqd: Server) -> str:
    """A topic of its own, with a channel ``c``."""
    return new_topic(nsqd)


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return f"--backend={name}"


def new_topic(nsqd: Server) -> str:
    name = f"topic-{next(_numbers)}"
    for path in (f"topic/create?topic={name}", f"channel/create?topic={name}&channel=c"):
        assert httpx.post(f"{nsqd.http_url}/{path}", trust_env=False).status_code == 200
    return name


def tail(nsqd: Server, topic: str | Sequence[str], *more: str, channel: str = "c") -> list[str]:
    return ["tail", *flags(topic=topic, channel=channel, nsqd_tcp_address=nsqd.tcp_address), *more]


def test_a_count_over_all_topics(nsqd: Server, topic: str, backend: str) -> None:
    other = new_topic(nsqd)
    sent = {name: {b"%s %d" % (name.encode(), number) for number in range(20)} for name in (topic, other)}
    for name, bodies in sent.items():
        nsqd.publish(name, *bodies)
    first = run(*tail(nsqd, [topic, other], "-n", "7", backend))
    assert (first.returncode, first.stderr) == (0, b"")
    # Exactly what was printed is finished: the rest is there, each message once.
    for name in sent:
        found = nsqd.channel(name, "c")
        printed = first.stdout.count(name.encode() + b" ")
        assert (found["depth"], found["in_flight_count"], found["deferred_count"]) == (20 - printed, 0, 0)
    second = run(*tail(nsqd, [topic, other], "-n", "33", backend))
    assert len(first.stdout.splitlines()) == 7
    assert sorted((first.stdout + second.stdout).splitlines()) == sorted(sent[topic] | sent[other])
    for name in sent:
        assert nsqd.is_done_with(name, "c", 20)


def test_topics_are_printed(nsqd: Server, topic: str) -> None:
    other = new_topic(nsqd)
    nsqd.publish(topic, b"a")
    nsqd.publish(other, b"b")
    done = run(*tail(nsqd, [topic, other, topic], "-n", "2", "--print-topic"))
    assert sorted(done.stdout.splitlines()) == [f"{topic} | a".encode(), f"{other} | b".encode()]


def test_flags_as_nsq_tail_takes_them(nsqd: Server, topic: str) -> None:
    nsqd.publish(topic, b"a", b"b")
    given = [f"-nsqd-tcp-address={nsqd.tcp_address}", "-topic", topic, "-channel=c", "-print-topic=true"]
    given += ["-max-in-flight=5", "-consumer-opt=max_attempts,3"]
    assert run("tail", *given, "-n=1").stdout == f"{topic} | a\n".encode()
    assert run("tail", *given, "-print-topic=false", "--n=1").stdout == b"b\n"


def test_every_byte_comes_through(nsqd: Server, topic: str, backend: str) -> None:
    body = bytes(range(256))
    nsqd.publish(topic, body, b"\n\r\n", b"\xff" * 200_000)
    done = run(*tail(nsqd, topic, "-n", "3", "--delimiter", r"\0|", backend))
    assert done.stdout == body + b"\0|" + b"\n\r\n" + b"\0|" + b"\xff" * 200_000 + b"\0|"


def test_json_with_metadata(nsqd: Server, topic: str) -> None:
    before = time.time_ns()
    nsqd.publish(topic, b"text", b"\xff")
    done = run(*tail(nsqd, topic, "-n", "2", "--json"))
    first, second = map(json.loads, done.stdout.splitlines())
    assert (first["body"], second["body_base64"]) == ("text", "/w==")
    assert (first["topic"], first["channel"], first["nsqd"]) == (topic, "c", nsqd.tcp_address)
    assert first["attempts"] == 1
    assert re.fullmatch("[0-9a-f]{16}", first["id"])
    assert before < first["timestamp"] <= second["timestamp"] < time.time_ns()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_channel_of_its_own_until_a_signal(
    cluster: tuple[str, Server], topic: str, number: signal.Signals, backend: str
) -> None:
    lookupd_url, nsqd = cluster

    def channels() -> list[str]:
        names: list[str] = [each["channel_name"] for each in nsqd.topic(topic)["channels"]]
        return [name for name in names if name != "c"]

    with running("tail", *flags(topic=topic, lookupd_http_address=lookupd_url), backend) as process:
        assert process.stdout is not None
        until(channels)
        (name,) = channels()
        assert re.fullmatch(r"tail\d{6}#ephemeral", name)
        until(lambda: nsqd.channel(topic, name)["clients"])
        nsqd.publish(topic, b"a")
        assert process.stdout.readline() == b"a\n"  # at once, though the output is no terminal
        assert end(process, number) == (b"", "")
    until(lambda: not channels())
    assert nsqd.channel(topic, "c")["depth"] == 1


def test_what_was_tried_often_is_printed(nsqd: Server, topic: str) -> None:
    """Its attempts are the other consumers'; nothing is finished that was not seen."""

    async def requeue() -> None:
        options = nsq.ConsumerOptions(max_attempts=0)
        with anyio.fail_after(LIMIT):
            async with nsq.consume(topic, "c", nsqd=nsqd.tcp_address, options=options) as consumer:
                async for message in consumer:
                    message.requeue(0, backoff=False)
                    if message.attempts == 6:
                        break

    nsqd.publish(topic, b"a")
    anyio.run(requeue)
    (record,) = run(*tail(nsqd, topic, "-n", "1", "--json")).stdout.splitlines()
    assert json.loads(record)["attempts"] >= 7


@pytest.mark.parametrize(
    ("more", "env", "shown"),
    [
        ((), {}, "\x1b[36m{topic}\x1b[0m | \\x1b[2Jé\r\n"),
        ((), {"NO_COLOR": "1"}, "{topic} | \\x1b[2Jé\r\n"),
        (("--raw",), {}, "{topic} | \x1b[2Jé\r\n"),
    ],
)
def test_a_terminal(nsqd: Server, topic: str, more: Sequence[str], env: dict[str, str], shown: str) -> None:
    nsqd.publish(topic, "\x1b[2Jé".encode())
    ours, theirs = os.openpty()
    try:
        with running(*tail(nsqd, topic, "--n=1", "--print-topic", *more), stdout=theirs, env=env) as process:
            os.close(theirs)
            assert read_terminal(ours).decode() == shown.format(topic=topic)
            assert process.wait(LIMIT) == 0
    finally:
        os.close(ours)


def test_the_reader_of_the_output_goes_away(nsqd: Server, topic: str, backend: str) -> None:
    with running(*tail(nsqd, topic, backend)) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        until(lambda: nsqd.channel(topic, "c").get("clients"))
        process.stdout.close()  # no message is needed to notice it
        assert process.wait(LIMIT) == 141
        assert process.stderr.read() == b""


def test_what_nobody_reads_is_not_finished(nsqd: Server, topic: str, backend: str) -> None:
    body = b"x" * 1_000_000
    with running(*tail(nsqd, topic, backend)) as process:
        assert process.stdout is not None
        nsqd.publish(topic, body)
        assert process.stdout.read(1) == b"x"  # it is in the middle of a write that the pipe cannot hold
        process.stdout.close()
        assert process.wait(LIMIT) == 141
    assert run(*tail(nsqd, topic, "-n", "1", backend)).stdout == body + b"\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_second_signal_ends_at_once(
    nsqd: Server, topic: str, number: signal.Signals, backend: str
) -> None:
    with running(*tail(nsqd, topic, backend)) as process:
        assert process.stdout is not None
        nsqd.publish(topic, b"x" * 1_000_000)
        assert process.stdout.read(1) == b"x"  # nobody reads the rest, so that it cannot end
        process.send_signal(number)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.3)
        process.send_signal(number)
        assert process.wait(LIMIT) == 128 + number


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="of Linux")
def test_a_full_disk(nsqd: Server, topic: str, backend: str) -> None:
    nsqd.publish(topic, b"a")
    with Path("/dev/full").open("wb") as full:
        done = run(*tail(nsqd, topic, backend), stdout=full)
    assert (done.returncode, done.stderr) == (1, b"Error: cannot write the output: No space left on device\n")
    assert run(*tail(nsqd, topic, "-n", "1")).stdout == b"a\n"


def test_short_flags_take_their_value_at_once(nsqd: Server, topic: str) -> None:
    nsqd.publish(topic, b"a", b"b")
    assert run(*tail(nsqd, topic, "-n1", "-delimiter", "-ab")).stdout == b"a-ab"


@pytest.mark.parametrize("source", ["nsqd-tcp-address", "lookupd-http-address"])
def test_nobody_is_there(source: str, backend: str) -> None:
    done = run("tail", "--topic=t", f"--{source}={DEAD}", backend)
    assert done.returncode == 1
    (line,) = done.stderr.decode().splitlines()
    assert line.startswith("Error: ")
    assert DEAD in line


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--topic=t"], "use --nsqd-tcp-address or --lookupd-http-address: one of them is needed"),
        (["--topic=t", f"--nsqd-tcp-address={DEAD}", f"--lookupd-http-address={DEAD}"], "not both"),
        ([f"--nsqd-tcp-address={DEAD}"], "Missing option '--topic'"),
        (["--topic=a b", f"--nsqd-tcp-address={DEAD}"], "a b"),
        (["--topic=t", "--channel=a b", f"--nsqd-tcp-address={DEAD}"], "a b"),
        (["--topic=t", "-n", "-1", f"--nsqd-tcp-address={DEAD}"], "-1"),
        (
            ["--topic=t", "-n", "x", f"--nsqd-tcp-address={DEAD}"],
            "'x' is not a whole number: use one that is 0 or more",
        ),
        (["--topic=t", "--lookupd-http-address=xn--a:4161"], "URL 'xn--a:4161' is not valid"),
        (["--topic=t", "--delimiter=", f"--nsqd-tcp-address={DEAD}"], "the delimiter is empty"),
        (["--topic=t", "--nsqd-tcp-address=nowhere"], "nowhere"),
        (["--topic=t", "--consumer-opt=nonsense,1", f"--nsqd-tcp-address={DEAD}"], "nonsense"),
        (["--topic=t", "--nonsense", f"--nsqd-tcp-address={DEAD}"], "--nonsense"),
    ],
)
def test_a_wrong_command_line(arguments: list[str], problem: str) -> None:
    result = CliRunner().invoke(cli, ["tail", *arguments], prog_name="nsq-anyio")
    assert result.exit_code == 2, result.output
    assert problem in result.stderr.splitlines()[-1]
    assert result.stdout == ""


def test_help_has_an_example() -> None:
    result = CliRunner().invoke(cli, ["tail", "-h"], prog_name="nsq-anyio")
    assert result.exit_code == 0
    assert "nsq-anyio tail --topic clicks --lookupd-http-address 127.0.0.1:4161" in result.stdout
