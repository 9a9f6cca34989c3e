"""The same command lines, good and bad, for each command and for the program of NSQ that it stands beside.

What they print and forward is compared elsewhere. Here it is whether a command line is taken, and how the
command ends: with 1 or 2 where a line is refused, and with 0 on SIGTERM. A fifth of the lines runs, and with
``NSQ_ANYIO_EVERY_CASE=1`` all of them.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from anyio.from_thread import start_blocking_portal

from ..cli.processes import COMMAND
from ..real_servers import program, real_nsqd

LIMIT = 30.0

IDLE_AFTER = 3.0
"""Seconds in which a Go program, which starts at once, has done what it ever will."""

GO = {
    "tail": "nsq_tail",
    "pub": "to_nsq",
    "stat": "nsq_stat",
    "to-file": "nsq_to_file",
    "to-http": "nsq_to_http",
    "to-nsq": "nsq_to_nsq",
}

# What each needs to run; a case adds to it, or leaves out what begins with "!".
BASE = {
    "tail": ["--topic={topic}", "--channel=c", "--nsqd-tcp-address={tcp}"],
    "pub": ["--topic={topic}", "--nsqd-tcp-address={tcp}"],
    "stat": ["--topic={topic}", "--channel=c", "--nsqd-http-address={http}", "--count=1", "--interval=100ms"],
    "to-file": [
        *("--topic={topic}", "--channel=c", "--nsqd-tcp-address={tcp}", "--output-dir={dir}"),
    ],
    "to-http": ["--topic={topic}", "--channel=c", "--nsqd-tcp-address={tcp}", "--post=http://127.0.0.1:1/"],
    "to-nsq": [
        *("--topic={topic}", "--channel=c", "--nsqd-tcp-address={tcp}"),
        *("--destination-topic=other", "--destination-nsqd-tcp-address={tcp}"),
    ],
}

CONSUMERS = ("tail", "to-file", "to-http", "to-nsq")


def lines(text: str) -> list[str]:
    """Command lines between bars."""
    return [line.strip() for line in text.split("|")]


FOR_CONSUMERS = lines(
    """
    -max-in-flight 5 | --max-in-flight=0x10 | --max-in-flight=five | --max-in-flight= |
    --max-in-flight=-1 | --consumer-opt=max_attempts,5 | --consumer-opt max_attempts,x |
    --consumer-opt=nothing,5 | --consumer-opt=heartbeat_interval,10s |
    --consumer-opt=heartbeat_interval,10x | --consumer-opt=snappy | --consumer-opt=snappy,maybe |
    --nothing | --nothing=5 | !--topic | !--nsqd |
    !--nsqd --lookupd-http-address=127.0.0.1:1 --nsqd-tcp-address={tcp} |
    !--channel --channel=c#ephemeral | !--channel --channel=a/b | !--topic --topic=a/b |
    !--topic --topic= | -version
    """
)
FOR_EACH = {
    "tail": lines(
        """
        -n 1 | --n=1 | -n x | --n=1.5 | -n -1 | -print-topic | --print-topic=false | --print-topic=x
        """
    ),
    "pub": lines(
        """
        --rate 5 | --rate=x | --rate= | --delimiter=, | --delimiter= | --delimiter=ab |
        --producer-opt=snappy,true | --producer-opt=nothing,1 | !--topic | !--nsqd | --nothing |
        !--topic --topic=a/b | !--nsqd --nsqd-tcp-address=127.0.0.1:1
        """
    ),
    "stat": lines(
        """
        -count 2 | --count=x | --count=-1 | --interval=0 | --interval=x | --interval=1 | !--topic |
        !--channel | !--nsqd | --lookupd-http-address=127.0.0.1:1 | --nothing | -version |
        --http-client-connect-timeout=1s | --http-client-connect-timeout=1 | !--topic --topic=a/b
        """
    ),
    "to-file": lines(
        """
        --gzip | --gzip=false | --gzip --gzip-level=9 | --gzip --gzip-level=10 |
        --gzip --gzip-level=0 | --gzip --gzip-level=x | --rotate-size=100 | --rotate-size=x |
        --rotate-size=-1 | --rotate-interval=1h | --rotate-interval=1 | --sync-interval=0 |
        --sync-interval=x | --skip-empty-files | --skip-empty-files=x | --filename-format=x |
        --filename-format=<TOPIC><REV> | --topic-pattern=^a | --topic-pattern=( |
        --host-identifier=h | --datetime-format=%Y | --log-prefix=x | --log-level=debug |
        --log-level=nothing | !--output --output-dir=/proc/none | --work-dir={dir}
        """
    ),
    "to-http": lines(
        """
        -n 5 | -n 0 | -n x | --sample=0.5 | --sample=2 | --sample=x | --status-every=0 |
        --status-every=-1 | !--post | --get=http://127.0.0.1:1/%s |
        !--post --get=http://127.0.0.1:1/%s | !--post --get=http://h/ | --mode=round-robin |
        --mode=nothing | --header=A:b | --header=A | --content-type=text/plain |
        !--post --get=http://h/%s --content-type=a/b | --http-client-connect-timeout=x
        """
    ),
    "to-nsq": lines(
        """
        --mode=hostpool | --mode=nothing | --status-every=0 | --require-json-field=a |
        --require-json-field=a --require-json-value=b | --require-json-value=b |
        --whitelist-json-field=a | !--destination-nsqd |
        !--destination-topic --destination-topic=a/b | --producer-opt=snappy,true |
        --producer-opt=nothing,1 | !--destination-topic
        """
    ),
}

CASES = [
    *((name, "") for name in GO),
    *itertools.product(CONSUMERS, FOR_CONSUMERS),
    *((name, line) for name, lines_of_it in FOR_EACH.items() for line in lines_of_it),
]

REFUSED, TAKEN, IDLE = "refused", "taken", "idle"

# What is not as in Go: our outcome, and Go's.
DIFFERENT: dict[tuple[str, str], tuple[str, str]] = {
    # Numbers are decimal.
    **dict.fromkeys(itertools.product(CONSUMERS, ["--max-in-flight=0x10"]), (REFUSED, TAKEN)),
    # A bound that bounds nothing, and a mode that there is not.
    ("tail", "-n -1"): (REFUSED, TAKEN),
    ("to-http", "--status-every=-1"): (REFUSED, TAKEN),
    ("to-file", "--rotate-size=-1"): (REFUSED, TAKEN),
    ("to-http", "--mode=nothing"): (REFUSED, TAKEN),
    ("to-nsq", "--mode=nothing"): (REFUSED, TAKEN),
    ("to-nsq", "--require-json-value=b"): (REFUSED, TAKEN),
    # nsq_to_file passes over what it does not understand, and waits for topics that never come.
    ("to-file", "--consumer-opt max_attempts,x"): (REFUSED, TAKEN),
    ("to-file", "--consumer-opt=nothing,5"): (REFUSED, TAKEN),
    ("to-file", "--consumer-opt=heartbeat_interval,10x"): (REFUSED, TAKEN),
    ("to-file", "--consumer-opt=snappy,maybe"): (REFUSED, TAKEN),
    ("to-file", "--max-in-flight=-1"): (REFUSED, IDLE),
    ("to-file", "!--channel --channel=a/b"): (REFUSED, IDLE),
    ("to-file", "!--topic --topic=a/b"): (REFUSED, IDLE),
    ("to-file", "!--topic --topic="): (REFUSED, IDLE),
    ("to-file", "--topic-pattern=^a"): (REFUSED, IDLE),
    ("to-file", "--topic-pattern=("): (REFUSED, IDLE),
    # to_nsq ends with 0 although nothing was published.
    ("pub", "!--topic --topic=a/b"): (REFUSED, TAKEN),
    ("pub", "!--nsqd --nsqd-tcp-address=127.0.0.1:1"): (REFUSED, TAKEN),
    # What would lose messages, or send them round for ever.
    ("tail", "!--channel --channel=c#ephemeral"): (REFUSED, TAKEN),
    ("to-nsq", "!--destination-topic"): (REFUSED, TAKEN),
    # What only ours can: a delimiter of several bytes, all channels, nsqds beside those of an nsqlookupd.
    ("pub", "--delimiter=ab"): (TAKEN, REFUSED),
    ("stat", "!--channel"): (TAKEN, REFUSED),
    ("stat", "--lookupd-http-address=127.0.0.1:1"): (TAKEN, REFUSED),
}

_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Nsqd:
    tcp: str
    http: str


@pytest.fixture(scope="module")
def nsqd() -> Generator[Nsqd]:
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(real_nsqd()) as server,
    ):
        yield Nsqd(server.tcp_address, server.http_url.removeprefix("http://"))


def line_of(name: str, line: str, values: dict[str, str]) -> list[str]:
    words = line.split()
    left_out = tuple(word[1:] for word in words if word[0] == "!")
    base = [word for word in BASE[name] if not (left_out and word.startswith(left_out))]
    return [word.format_map(values) for word in [*base, *(word for word in words if word[0] != "!")]]


def outcome(nsqd: Nsqd, command: list[str], name: str, line: str, directory: Path, *, may_idle: bool) -> str:
    """What becomes of a command line: ``refused``, or ``taken``, whether it ends by itself or is told to.

    :param may_idle: whether it may also go on without doing anything, which is ``idle``
    """
    topic = f"t{next(_numbers)}"
    for path in ("topic/create?", "channel/create?channel=c&", "pub?"):
        url = f"http://{nsqd.http}/{path}topic={topic}"
        httpx.post(url, content=b"m", trust_env=False).raise_for_status()
    values = {"topic": topic, "tcp": nsqd.tcp, "http": nsqd.http, "dir": str(directory)}
    with subprocess.Popen(
        [*command, *line_of(name, line, values)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            told = False
            give_up_at = time.monotonic() + (IDLE_AFTER if may_idle else LIMIT)
            while process.poll() is None:
                if time.monotonic() > give_up_at:
                    assert may_idle, "it neither ended nor worked"
                    return IDLE
                if not told and consumers(nsqd, topic):
                    process.terminate()
                    told, give_up_at = True, time.monotonic() + LIMIT
                time.sleep(0.02)
            code = process.returncode
            assert process.stderr is not None
            said = process.stderr.read().decode(errors="replace")
        finally:
            process.kill()
    assert "Traceback" not in said
    if code:
        assert code in {1, 2}, said
        return REFUSED
    return TAKEN


def consumers(nsqd: Nsqd, topic: str) -> int:
    stats = httpx.get(f"http://{nsqd.http}/stats?format=json&topic={topic}", trust_env=False).json()
    return sum(channel["client_count"] for each in stats["topics"] for channel in each["channels"])


@pytest.mark.parametrize(("name", "line"), CASES if os.environ.get("NSQ_ANYIO_EVERY_CASE") else CASES[::5])
def test_it_ends_as_its_counterpart(name: str, line: str, nsqd: Nsqd, tmp_path: Path) -> None:
    ours = outcome(nsqd, [*COMMAND, name], name, line, tmp_path, may_idle=False)
    theirs = outcome(nsqd, [str(program(GO[name]))], name, line, tmp_path, may_idle=True)
    assert (ours, theirs) == DIFFERENT.get((name, line), (theirs, theirs))
