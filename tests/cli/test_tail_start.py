"""What ``nsq-anyio tail`` asks before it takes a message: whether it is missed, and whether nsqd is there."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Generator
from itertools import count

import pytest

from nsq_anyio.cli.backend import BACKENDS

from .forwarders import Server, embedded_nsqds, flags, until
from .processes import COMMAND, LIMIT, read_terminal, run

_numbers = count(1)


@pytest.fixture(scope="module")
def cluster() -> Generator[tuple[str, Server]]:
    with embedded_nsqds(1) as (lookupd_url, (nsqd,)):
        yield lookupd_url, nsqd


@pytest.fixture
def nsqd(cluster: tuple[str, Server]) -> Server:
    return cluster[1]


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return f"--backend={name}"


@pytest.fixture
def undrained(nsqd: Server) -> str:
    """A topic without channels, where five messages wait."""
    name = f"topic-{next(_numbers)}"
    nsqd.publish(name, *(b"%d" % number for number in range(5)))
    return name


def _source(cluster: tuple[str, Server], kind: str) -> dict[str, str]:
    lookupd_url, nsqd = cluster
    if kind == "lookupd":
        return {"lookupd_http_address": lookupd_url}
    known = {"nsqd_http_address": nsqd.http_url} if kind == "known" else {}
    return {"nsqd_tcp_address": nsqd.tcp_address, **known}


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("lookupd", "5 messages wait"),
        ("known", "5 messages wait"),
        ("unknown", "the HTTP address of nsqd"),
    ],
)
def test_a_topic_without_channels_is_not_drained_unasked(
    cluster: tuple[str, Server], undrained: str, kind: str, reason: str, backend: str
) -> None:
    given = flags(topic=undrained, **_source(cluster, kind))
    refused = run("tail", *given, "-n", "2", backend)
    assert refused.returncode == 1
    assert refused.stdout == b""
    assert reason in refused.stderr.decode()
    assert "--drain" in refused.stderr.decode()
    assert cluster[1].topic(undrained)["depth"] == 5
    assert cluster[1].topic(undrained)["channels"] == []
    done = run("tail", *given, "-n", "2", "--drain", backend)
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 2)


def test_a_channel_that_stays_keeps_what_is_not_printed(nsqd: Server, undrained: str) -> None:
    done = run("tail", *flags(topic=undrained, channel="stays", nsqd_tcp_address=nsqd.tcp_address), "-n", "2")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 2)
    until(lambda: nsqd.channel(undrained, "stays")["depth"] == 3)


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
@pytest.mark.parametrize(("answer", "code", "depth"), [(b"n\n", 1, 5), (b"y\n", 0, 0)])
def test_on_a_terminal_it_asks(
    cluster: tuple[str, Server], undrained: str, answer: bytes, code: int, depth: int
) -> None:
    ours, theirs = os.openpty()
    given = flags(topic=undrained, **_source(cluster, "known"))
    with subprocess.Popen(
        [*COMMAND, "tail", *given, "-n", "2"], stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        os.write(ours, answer)
        shown = read_terminal(ours)
        assert process.wait(LIMIT) == code, shown
    os.close(ours)
    assert b"Go on? [y/N]" in shown
    assert cluster[1].topic(undrained)["depth"] == depth


@pytest.mark.parametrize("side", ["nsqd's HTTP side", "an nsqlookupd's HTTP side"])
def test_a_port_that_is_no_nsqd_s_is_said_and_not_tried_again(
    cluster: tuple[str, Server], side: str, backend: str
) -> None:
    url = cluster[1].http_url if "nsqd's" in side else cluster[0]
    done = run("tail", "--topic=t", "--channel=c", f"--nsqd-tcp-address={url.partition('//')[2]}", backend)
    assert done.returncode == 1
    (line,) = done.stderr.decode().splitlines()
    assert line.endswith("it speaks HTTP: use nsqd's TCP port, 4150 by default")


def test_a_tcp_port_as_an_nsqlookupd_is_said(nsqd: Server, backend: str) -> None:
    done = run("tail", "--topic=t", "--channel=c", f"--lookupd-http-address={nsqd.tcp_address}", backend)
    assert done.returncode == 1
    (line,) = done.stderr.decode().splitlines()
    assert "does not speak HTTP" in line
    assert line.endswith("is this its TCP port?")


def test_one_nsqlookupd_of_two_is_enough(cluster: tuple[str, Server], backend: str) -> None:
    lookupd_url, nsqd = cluster
    topic = f"topic-{next(_numbers)}"
    nsqd.publish(topic, b"x")
    done = run("tail", f"--topic={topic}", "--channel=c", f"--nsqd-tcp-address={nsqd.tcp_address}", "-n", "1")
    assert done.stdout == b"x\n"
    nsqd.publish(topic, b"y")
    urls = [f"--lookupd-http-address={url}" for url in (lookupd_url, "http://127.0.0.1:1")]
    # The channel of this one is another, an ephemeral one, for which the nsqds are asked.
    with subprocess.Popen(
        [*COMMAND, "tail", f"--topic={topic}", *urls, "-n", "1", backend],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        until(lambda: len(nsqd.topic(topic)["channels"]) == 2)
        nsqd.publish(topic, b"z")
        output, errors = process.communicate(timeout=LIMIT)
    assert (process.returncode, output) == (0, b"z\n")
    assert b"127.0.0.1:1" in errors


def test_no_nsqlookupd_is_not_enough(undrained: str, backend: str) -> None:
    urls = [f"--lookupd-http-address=http://127.0.0.1:{port}" for port in (1, 2)]
    done = run("tail", f"--topic={undrained}", *urls, "-n", "1", backend)
    assert done.returncode == 1
    assert b"127.0.0.1:2" in done.stderr
