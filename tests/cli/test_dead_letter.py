"""``nsq-anyio dead-letter`` as a process, on an embedded nsqd."""

from __future__ import annotations

import json
import time
from collections.abc import Generator, Sequence
from itertools import count
from typing import Any

import anyio
import anyio.from_thread
import pytest

import nsq_anyio as nsq
from nsq_anyio import envelope
from nsq_anyio.cli.backend import BACKENDS
from nsq_anyio.testing import fault_proxy

from .forwarders import Server, embedded_nsqds, until
from .processes import LIMIT, run, running

_numbers = count(1)

BODIES = [b"one", b"two \xff\x1b[0m", envelope.encode(b"three", {"traceparent": "00-1"})]


@pytest.fixture(scope="module")
def nsqd() -> Generator[Server]:
    with embedded_nsqds(1) as (_, (nsqd,)):
        yield nsqd


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return f"--backend={name}"


@pytest.fixture
def topic(nsqd: Server) -> str:
    """A topic whose consumer has discarded each of the `BODIES`, with another error each."""
    name = f"topic-{next(_numbers)}"
    discard(nsqd, name, BODIES)
    return name


def discard(nsqd: Server, topic: str, bodies: Sequence[bytes]) -> None:
    async def main() -> None:
        async with nsq.produce(nsqd.tcp_address) as producer:
            for body in bodies:
                await producer.publish(topic, body)
            dead_letter = nsq.DeadLetter("{topic}.dead", producer=producer)
            async with nsq.consume(topic, "c", nsqd=nsqd.tcp_address, dead_letter=dead_letter) as consumer:
                for number in range(len(bodies)):
                    async with await anext(consumer):
                        raise nsq.Discard(f"error {number}") from ValueError("[bold]\x1b[31m")

    with anyio.from_thread.start_blocking_portal() as portal:
        portal.call(main)


def taken(nsqd: Server, topic: str, number: int, channel: str = "c") -> list[bytes]:
    """The bodies that are in the channel."""
    found = nsqd.channel(topic, channel)
    assert (found["depth"], found["in_flight_count"], found["deferred_count"]) == (number, 0, 0)

    async def main() -> list[bytes]:
        bodies: list[bytes] = []
        with anyio.fail_after(LIMIT):
            async with nsq.consume(topic, channel, nsqd=nsqd.tcp_address) as consumer:
                while len(bodies) < number:
                    message = await anext(consumer)
                    bodies.append(message.body)
                    message.finish()
        return bodies

    return anyio.run(main)


def command(name: str, nsqd: Server, topic: str, *more: str) -> list[str]:
    at = [f"--topic={topic}.dead", f"--nsqd-tcp-address={nsqd.tcp_address}", "--wait=300ms"]
    return ["dead-letter", name, *at, *more]


def letters(nsqd: Server, topic: str, *more: str) -> list[dict[str, Any]]:
    done = run(*command("list", nsqd, topic, "--json", *more))
    assert (done.returncode, done.stderr) == (0, b"")
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_list_shows_all_and_takes_none(nsqd: Server, topic: str, backend: str) -> None:
    for _ in range(2):
        done = run(*command("list", nsqd, topic, backend))
        assert (done.returncode, done.stderr) == (0, b"")
        shown = done.stdout.decode()
        assert shown.endswith("3 letters\n")
        assert "error 2" in shown
        assert f"{topic}/c" in shown
    done = run(*command("list", nsqd, topic, "--limit=1"))
    assert done.stdout.decode().endswith("3 letters, of which 1 are shown\n")
    assert len(taken(nsqd, f"{topic}.dead", 3, "dead-letter")) == 3


def test_list_shows_whole_ids_on_a_narrow_terminal(nsqd: Server, topic: str) -> None:
    shown = run(*command("list", nsqd, topic), COLUMNS="60").stdout.decode()
    assert all(letter["id"] in shown for letter in letters(nsqd, topic))


def test_list_takes_over_on_another_connection_when_one_is_full(nsqd: Server, topic: str) -> None:
    done = run(*command("list", nsqd, topic, "--max-in-flight=1", "--log-level=info"))
    assert done.returncode == 0
    assert done.stdout.decode().endswith("3 letters\n")
    assert done.stderr.decode().count("connected") >= 3  # each holds one letter
    assert b"default: 2500" in run("dead-letter", "list", "--help").stdout


@pytest.mark.parametrize(
    ("flags", "found"),
    [
        (["--error=error 1"], [1]),
        (["--error=Discard"], [0, 1, 2]),
        (["--error=.*"], []),
        (["--older-than=1h"], []),
        (["--newer-than=1h"], [0, 1, 2]),
        (["--newer-than=1h", "--error=error 2"], [2]),
        (["--from-topic=other"], []),
        (["--from-channel=c"], [0, 1, 2]),
        (["--from-channel=d"], []),
    ],
)
def test_filters(nsqd: Server, flags: list[str], found: list[int], topic: str) -> None:
    texts: list[str] = [each["headers"]["nsq-dead-error"] for each in letters(nsqd, topic, *flags)]
    assert sorted(texts) == [f"error {number}" for number in found]


def test_show_one(nsqd: Server, topic: str, backend: str) -> None:
    (letter,) = letters(nsqd, topic, "--error=error 1")
    for id in (letter["id"], letter["headers"]["nsq-dead-id"]):
        done = run(*command("show", nsqd, topic, str(id), backend))
        assert (done.returncode, done.stderr) == (0, b"")
        text = done.stdout.decode()
        assert f"topic: {topic}\n" in text
        assert "reason: discarded\n" in text
        assert "ValueError: [bold]\\x1b[31m" in text
        assert text.endswith("9 bytes:\ntwo \\xff\\x1b[0m\n")
    done = run(*command("show", nsqd, topic, "0123456789abcdef"))
    assert done.returncode == 1
    assert b" has no letter with the id 0123456789abcdef" in done.stderr


def test_an_id_alone_does_not_name_a_letter_of_several_nsqds(nsqd: Server, topic: str) -> None:
    done = run(*command("drop", nsqd, topic, "--yes", "--nsqd-tcp-address=127.0.0.1:1", "0123456789abcdef"))
    assert done.returncode == 2
    assert b"write NSQD/ID" in done.stderr
    (letter,) = letters(nsqd, topic, "--error=error 1")
    done = run(*command("drop", nsqd, topic, "--yes", f"{letter['nsqd']}/{letter['id']}"))
    assert (done.returncode, done.stdout) == (0, b"dropped 1 letter\n")


def test_retry_brings_the_bodies_back(nsqd: Server, topic: str, backend: str) -> None:
    done = run(*command("retry", nsqd, topic, backend))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"retried 3 letters\n", b"")
    assert sorted(taken(nsqd, topic, 3)) == sorted(BODIES)
    assert nsqd.is_done_with(f"{topic}.dead", "dead-letter", 3)


def test_retry_some(nsqd: Server, topic: str) -> None:
    (letter,) = letters(nsqd, topic, "--error=error 2")
    done = run(*command("retry", nsqd, topic, "--json", str(letter["id"])))
    assert json.loads(done.stdout) == {"retried": 1, "unconfirmed": 0, "left": 0, "problem": None}
    assert taken(nsqd, topic, 1) == [BODIES[2]]
    assert json.loads(run(*command("retry", nsqd, topic, "--json", "--limit=1")).stdout)["retried"] == 1
    assert len(letters(nsqd, topic)) == 1


def test_what_dies_again_is_not_retried_again(nsqd: Server, topic: str) -> None:
    async def discard_again() -> None:
        async def handle(message: nsq.Message) -> None:
            raise nsq.Discard("again")

        async with nsq.produce(nsqd.tcp_address) as producer:
            dead_letter = nsq.DeadLetter("{topic}.dead", producer=producer)
            async with nsq.consume(topic, "c", nsqd=nsqd.tcp_address, dead_letter=dead_letter) as consumer:
                await consumer.run(handle)

    with anyio.from_thread.start_blocking_portal() as portal:
        discarding = portal.start_task_soon(discard_again)
        done = run(*command("retry", nsqd, topic))
        assert (done.returncode, done.stdout, done.stderr) == (0, b"retried 3 letters\n", b"")
        until(lambda: nsqd.channel(topic, "c")["depth"] + nsqd.channel(topic, "c")["in_flight_count"] == 0)
        discarding.cancel()
    assert [each["headers"]["nsq-dead-error"] for each in letters(nsqd, topic)] == ["again"] * 3


def test_what_is_no_dead_letter_stays(nsqd: Server, topic: str) -> None:
    nsqd.publish(f"{topic}.dead", b"stray", envelope.MAGIC + b"\x09")
    assert [each["problem"] for each in letters(nsqd, topic)].count(None) == 3
    done = run(*command("retry", nsqd, topic))
    assert done.returncode == 3
    assert done.stdout == b"retried 3 letters\n"
    assert b"2 letters stay; the first: letter " in done.stderr
    done = run(*command("retry", nsqd, topic))
    assert (done.returncode, done.stdout) == (1, b"retried 0 letters\n")
    assert len(taken(nsqd, f"{topic}.dead", 2, "dead-letter")) == 2


def test_drop_asks_first(nsqd: Server, topic: str, backend: str) -> None:
    done = run(*command("drop", nsqd, topic))
    assert done.returncode == 1
    assert b"Use --yes to confirm" in done.stderr
    done = run(*command("drop", nsqd, topic, "--yes", "--error=error 0", backend))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"dropped 1 letter\n", b"")
    assert len(letters(nsqd, topic)) == 2
    assert nsqd.channel(topic, "c")["depth"] == 0


def test_what_nsqd_has_not_confirmed_is_said(nsqd: Server, backend: str) -> None:
    """The connection is lost while the FINs are on their way."""
    topic = f"topic-{next(_numbers)}"
    nsqd.publish(f"{topic}.dead", b"zero")
    with (
        anyio.from_thread.start_blocking_portal() as portal,
        portal.wrap_async_context_manager(fault_proxy(nsqd.tcp_address)) as proxy,
    ):
        by_proxy = Server(proxy.address, nsqd.http_url)
        with running(*command("drop", by_proxy, topic, "--yes", "--wait=3s", backend)) as process:
            until(lambda: nsqd.is_done_with(f"{topic}.dead", "dead-letter", 1))
            proxy.to_server.delay = 5.0
            nsqd.publish(f"{topic}.dead", b"one", b"two")
            until(lambda: nsqd.channel(f"{topic}.dead", "dead-letter")["in_flight_count"] == 2)
            time.sleep(0.5)  # until they are finished
            portal.call(proxy.refuse)
            portal.call(proxy.cut)
            stdout, stderr = process.communicate(timeout=LIMIT)
    assert (process.returncode, stdout) == (1, b"dropped 0 letters\n")
    assert b"3 more letters were finished without nsqd's confirmation, and may still be there" in stderr


@pytest.mark.parametrize("name", ["list", "retry"])
def test_no_server(nsqd: Server, name: str) -> None:
    done = run("dead-letter", name, "--topic=t", "--nsqd-tcp-address=127.0.0.1:1")
    assert done.returncode == 1
    assert b"cannot connect" in done.stderr
    assert b"Traceback" not in done.stderr
