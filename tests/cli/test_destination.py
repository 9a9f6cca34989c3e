"""``pub`` and ``to-nsq`` to nsqds that nsqlookupds know, and ``--map-address``."""

from __future__ import annotations

from collections.abc import Generator
from itertools import count
from typing import Any

import click
import pytest
from click.testing import CliRunner

from nsq_anyio.cli.backend import BACKENDS
from nsq_anyio.cli.command import UtilityCommand
from nsq_anyio.cli.flags.connection import connection_flags
from nsq_anyio.cli.main import cli

from .forwarders import Server, embedded_nsqds, flags, forwarding, until
from .processes import run

DEAD = "127.0.0.1:1"

_numbers = count(1)


@pytest.fixture(scope="module")
def cluster() -> Generator[tuple[str, list[Server]]]:
    """The URL of an nsqlookupd, and two nsqds that it knows."""
    with embedded_nsqds(2) as found:
        yield found


@pytest.fixture
def topic() -> str:
    return f"topic-{next(_numbers)}"


def held(nsqd: Server, topic: str) -> int:
    """How many messages an nsqd has got for a topic."""
    found: int = nsqd.topic(topic).get("message_count", 0)
    return found


@pytest.mark.parametrize("backend", BACKENDS)
def test_pub_gives_each_message_to_one_nsqd(
    cluster: tuple[str, list[Server]], topic: str, backend: str
) -> None:
    url, nsqds = cluster
    for _ in range(2):
        done = run("pub", *flags(topic=topic, lookupd_http_address=url, backend=backend), data=b"a\nb\n")
        assert done.returncode == 0, done.stderr
    assert sum(held(nsqd, topic) for nsqd in nsqds) == 4


def test_pub_to_an_nsqlookupd_that_is_not_there() -> None:
    done = run("pub", *flags(topic="t", lookupd_http_address=DEAD), data=b"a\n")
    assert done.returncode == 1
    assert DEAD in done.stderr.decode()


def test_pub_to_an_nsqlookupd_that_knows_none() -> None:
    with embedded_nsqds(1, registered=False) as (url, _):
        arguments = flags(topic="t", lookupd_http_address=url, producer_opt="publish_timeout,300ms")
        done = run("pub", *arguments, data=b"a\n")
    assert done.returncode == 1
    assert f"{url}: it names no nsqd" in done.stderr.decode()


def test_all_nsqds_cannot_be_those_of_an_nsqlookupd() -> None:
    arguments = flags(topic="t", lookupd_http_address=DEAD, mode="all")
    result = CliRunner().invoke(cli, ["pub", *arguments])
    assert result.exit_code == 2
    assert "use only --nsqd-tcp-address" in result.stderr


def test_to_nsq(cluster: tuple[str, list[Server]], topic: str) -> None:
    url, nsqds = cluster
    with embedded_nsqds(1, registered=False) as (_, (source,)):
        source.publish(topic, *[b"%d" % number for number in range(10)])
        arguments = flags(
            topic=topic, nsqd_tcp_address=source.tcp_address, destination_lookupd_http_address=url
        )
        with forwarding("to-nsq", *arguments, "--status-every=1"):
            until(lambda: source.is_done_with(topic, "nsq_to_nsq", 10))
    assert sum(held(nsqd, topic) for nsqd in nsqds) == 10


def test_addresses_are_mapped_on_the_way_to_the_source_and_the_destination(
    cluster: tuple[str, list[Server]], topic: str
) -> None:
    url, nsqds = cluster
    first, second = nsqds
    arguments = flags(
        topic=topic,
        lookupd_http_address=url,
        map_address=[f"{first.tcp_address}={second.tcp_address}"],
    )
    for _ in range(3):
        assert run("pub", *arguments, data=b"a\n").returncode == 0
    assert (held(first, topic), held(second, topic)) == (0, 3)


@click.command(cls=UtilityCommand)
@connection_flags("consumer", "producer")
def probe(**values: object) -> None:
    """Hand over what the flags say."""
    click.get_current_context().obj.update(values)


def test_the_flag_is_an_option_of_both_sides() -> None:
    found: dict[str, Any] = {}
    result = CliRunner().invoke(probe, ["--map-address=h:04150=[::1]:2", "--map-address=i:1=j:2"], obj=found)
    assert result.exit_code == 0, result.output
    for side in ("consumer", "producer"):
        connection = found[side].connection
        assert connection.map_address == {"h:4150": "[::1]:2", "i:1": "j:2"}


@pytest.mark.parametrize("text", ["h:1", "h=i:1", "h:1=", "h:1=i", "=i:1"])
def test_what_is_no_pair_of_addresses_is_refused(text: str) -> None:
    result = CliRunner().invoke(
        cli, ["tail", "--topic=t", f"--nsqd-tcp-address={DEAD}", f"--map-address={text}"]
    )
    assert result.exit_code == 2
    assert f"'{text}' is not valid: " in result.stderr
