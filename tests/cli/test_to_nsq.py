"""``nsq-anyio to-nsq`` as a process, on embedded nsqds."""

from __future__ import annotations

import signal
from collections.abc import Generator, Sequence
from itertools import count

import anyio
import pytest
from click.testing import CliRunner

import nsq_anyio as nsq
from nsq_anyio.cli.backend import BACKENDS
from nsq_anyio.cli.main import cli

from .forwarders import Server, embedded_nsqds, end, flags, forwarding, until

CHANNEL = "nsq_to_nsq"
DEAD = "127.0.0.1:1"

_numbers = count(1)


@pytest.fixture(scope="module")
def nsqds() -> Generator[list[Server]]:
    """A source and two destinations."""
    with embedded_nsqds(3, registered=False) as (_, found):
        yield found


@pytest.fixture
def topic() -> str:
    return f"topic-{next(_numbers)}"


def messages(nsqd: Server, topic: str, number: int) -> list[bytes]:
    """So many messages of a topic, sorted."""

    async def take() -> list[bytes]:
        found: list[bytes] = []
        with anyio.fail_after(20):
            async with nsq.consume(topic, "check", nsqd=nsqd.tcp_address, max_in_flight=100) as consumer:
                async for message in consumer:
                    message.finish()
                    found.append(message.body)
                    if len(found) == number:
                        break
        return sorted(found)

    return anyio.run(take)


@pytest.mark.parametrize("backend", BACKENDS)
def test_several_topics_to_one_nsqd(nsqds: list[Server], topic: str, backend: str) -> None:
    source, destination, _ = nsqds
    other = f"{topic}-other"
    bodies = [b"%d \x00\xff\n" % number for number in range(50)]
    source.publish(topic, *bodies)
    source.publish(other, b"other")
    arguments = flags(
        topic=[topic, other, topic],
        nsqd_tcp_address=source.tcp_address,
        destination_nsqd_tcp_address=destination.tcp_address,
        backend=backend,
        status_every="25",
    )
    with forwarding("to-nsq", *arguments) as process:
        until(lambda: source.is_done_with(topic, CHANNEL, 50))
        until(lambda: source.is_done_with(other, CHANNEL, 1))
        log = end(process)
    assert messages(destination, topic, 50) == sorted(bodies)
    assert messages(destination, other, 1) == [b"other"]
    assert "[aggregate]: finished" in log


def test_another_topic_with_the_flags_of_go(nsqds: list[Server], topic: str) -> None:
    source = nsqds[0]
    source.publish(topic, b"m")
    arguments = ["-topic", topic, "-nsqd-tcp-address", source.tcp_address, "-channel=mine"]
    arguments += ["-destination-topic", f"{topic}-copy", "-destination-nsqd-tcp-address", source.tcp_address]
    with forwarding("to-nsq", *arguments) as process:
        until(lambda: source.is_done_with(topic, "mine", 1))
        end(process, signal.SIGINT)
    assert messages(source, f"{topic}-copy", 1) == [b"m"]


@pytest.mark.parametrize("mode", ["hostpool", "round-robin", "epsilon-greedy", "least-outstanding"])
def test_a_dead_destination_holds_up_nothing(nsqds: list[Server], topic: str, mode: str) -> None:
    source, one, other = nsqds
    source.publish(topic, *[b"m"] * 40)
    arguments = flags(
        topic=topic,
        nsqd_tcp_address=source.tcp_address,
        destination_nsqd_tcp_address=[DEAD, one.tcp_address, other.tcp_address],
        mode=mode,
    )
    with forwarding("to-nsq", *arguments) as process:
        until(lambda: source.is_done_with(topic, CHANNEL, 40))
        end(process)
    assert sum(nsqd.topic(topic).get("message_count", 0) for nsqd in (one, other)) == 40
    assert source.channel(topic, CHANNEL)["requeue_count"] == 0


def test_json(nsqds: list[Server], topic: str) -> None:
    source, destination, _ = nsqds
    source.publish(
        topic,
        b'{"id":9007199254740993,"kind":"click","secret":1}',
        b'{"id":2,"kind":"view","secret":1}',
        b'{"id":3,"secret":1}',
        b"no JSON",
    )
    arguments = flags(
        topic=topic,
        nsqd_tcp_address=source.tcp_address,
        destination_nsqd_tcp_address=destination.tcp_address,
        require_json_field="kind",
        require_json_value="click",
        whitelist_json_field=["kind", "id"],
    )
    with forwarding("to-nsq", *arguments) as process:
        until(lambda: source.is_done_with(topic, CHANNEL, 4))
        log = end(process)
    assert messages(destination, topic, 1) == [b'{"kind":"click","id":9007199254740993}']
    assert destination.topic(topic)["message_count"] == 1
    assert log.count("discarded: it is not a JSON object") == 1


def test_what_no_destination_takes_is_requeued(nsqds: list[Server], topic: str) -> None:
    source = nsqds[0]
    source.publish(topic, b"m")
    arguments = flags(
        topic=topic,
        nsqd_tcp_address=source.tcp_address,
        destination_nsqd_tcp_address=DEAD,
        producer_opt="connect_timeout,100ms",
    )
    with forwarding("to-nsq", *arguments) as process:
        until(lambda: source.channel(topic, CHANNEL).get("requeue_count"))
        log = end(process)
    assert "is requeued: " in log
    assert "backing off" in log
    assert source.channel(topic, CHANNEL)["deferred_count"] == 1


def test_a_message_that_is_too_large_slows_down_no_other(nsqds: list[Server], topic: str) -> None:
    source, destination, _ = nsqds
    source.publish(topic, b"x" * 100, b"y")
    arguments = flags(
        topic=topic,
        nsqd_tcp_address=source.tcp_address,
        destination_nsqd_tcp_address=destination.tcp_address,
        producer_opt="max_msg_size,50",
    )
    with forwarding("to-nsq", *arguments) as process:
        until(lambda: destination.topic(topic).get("message_count"))
        until(lambda: source.channel(topic, CHANNEL).get("deferred_count"))
        log = end(process)
    assert "is requeued: " in log
    assert "backing off" not in log


@pytest.mark.parametrize("destination_topic", [None, "t"])
def test_a_loop_is_refused(destination_topic: str | None) -> None:
    arguments = flags(
        topic=["t", "u"], nsqd_tcp_address=["h:1", "h:2"], destination_nsqd_tcp_address=["h:3", "h:2"]
    )
    if destination_topic:
        arguments.append(f"--destination-topic={destination_topic}")
    done = CliRunner().invoke(cli, ["to-nsq", *arguments])
    assert done.exit_code == 2
    assert "t of h:2 would be published to itself" in done.stderr


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nsqd_tcp_address": ()}, "use --nsqd-tcp-address or --lookupd-http-address"),
        (
            {"destination_nsqd_tcp_address": ()},
            "use --destination-nsqd-tcp-address or --destination-lookupd-http-address",
        ),
        ({"topic": ()}, "Missing option '--topic'"),
        ({"topic": "a b"}, "topic 'a b' is not valid"),
        ({"destination_topic": "a b"}, "topic 'a b' is not valid"),
        ({"channel": "a b"}, "channel 'a b' is not valid"),
        ({"destination_nsqd_tcp_address": "h"}, "nsqd address 'h' has no valid port"),
        ({"require_json_value": "v"}, "set --require-json-field as well"),
        ({"mode": "all"}, "'all' is not one of"),
    ],
)
def test_bad_command_lines_are_explained(changes: dict[str, str | Sequence[str]], message: str) -> None:
    valid = {"topic": "t", "nsqd_tcp_address": "h:1", "destination_nsqd_tcp_address": "h:2"}
    arguments = {**valid, **changes}
    done = CliRunner().invoke(cli, ["to-nsq", *flags(**arguments)])
    assert done.exit_code == 2
    assert message in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("source", ["--nsqd-tcp-address=127.0.0.1:1", "--lookupd-http-address=127.0.0.1:1"])
def test_with_no_server_there_it_is_one_clear_line(source: str) -> None:
    arguments = ["--topic=t", source, "--destination-nsqd-tcp-address=127.0.0.1:2"]
    done = CliRunner().invoke(cli, ["to-nsq", *arguments])
    assert done.exit_code == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: ")
    assert "127.0.0.1:1" in line


def test_help_has_an_example() -> None:
    done = CliRunner().invoke(cli, ["to-nsq", "--help"])
    assert "Example:\n    nsq-anyio to-nsq " in done.output
