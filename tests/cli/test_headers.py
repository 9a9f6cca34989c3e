"""``pub --header`` and ``tail --headers`` as processes, on an embedded nsqd."""

from __future__ import annotations

import json
from collections.abc import Generator

import pytest

from nsq_anyio.envelope import MAGIC, encode

from .forwarders import Server, embedded_nsqds
from .processes import run


@pytest.fixture
def nsqd() -> Generator[Server]:
    with embedded_nsqds(1) as (_, (nsqd,)):
        yield nsqd


def tail(nsqd: Server, *more: str) -> bytes:
    at = ["--topic=t", "--channel=c", f"--nsqd-tcp-address={nsqd.tcp_address}"]
    done = run("tail", *at, *more)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def test_there_and_back(nsqd: Server) -> None:
    at = ["--topic=t", f"--nsqd-tcp-address={nsqd.tcp_address}"]
    flags = ["--header", "Content-Type=text/plain", "--header", "note=a=b\n\x1b"]
    done = run("pub", *at, *flags, data=b"one\ntwo\n")
    assert (done.returncode, done.stderr) == (0, b"")
    nsqd.publish("t", b"raw", MAGIC + b"\x09")
    headers = {"content-type": "text/plain", "note": "a=b\n\x1b"}
    assert tail(nsqd, "-n1", "--headers") == b"content-type: text/plain\nnote: a=b\\n\\x1b\n\none\n"
    assert tail(nsqd, "-n1") == encode(b"two", headers) + b"\n"
    assert tail(nsqd, "-n2", "--headers") == b"\nraw\n\n" + MAGIC + b"\x09\n"
    assert run("pub", *at, *flags, data=b"three\n").returncode == 0
    shown = json.loads(tail(nsqd, "-n1", "--headers", "--json"))
    assert (shown["headers"], shown["body"]) == (headers, "three")


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        (["--header", "a"], "'a' has no value: use NAME=VALUE"),
        (["--header", "a=1", "--header", "a=2"], "'a' is given twice"),
        (["--header", "a=1", "--header", "A=2"], "'a' is given twice"),
        (["--header", "no good=1"], "header name 'no good' is not valid"),
    ],
)
def test_headers_that_are_refused(flags: list[str], says: str) -> None:
    done = run("pub", "--topic=t", "--nsqd-tcp-address=127.0.0.1:1", *flags)
    assert done.returncode == 2
    assert says in done.stderr.decode()


def test_the_limit_is_that_of_the_envelope(nsqd: Server) -> None:
    at = ["--topic=t", f"--nsqd-tcp-address={nsqd.tcp_address}", "--producer-opt=max_msg_size,100"]
    size = len(encode(b"", {"a": "b"}))
    assert run("pub", *at, "--header=a=b", data=b"x" * (100 - size)).returncode == 0
    done = run("pub", *at, "--header=a=b", data=b"x" * (101 - size))
    assert done.returncode == 1
    assert f"more than {100 - size} bytes" in done.stderr.decode()
