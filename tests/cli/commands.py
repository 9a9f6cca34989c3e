"""Every command with arguments that it can run with, for tests of what all of them do alike."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .forwarders import Server

RUNS_ON = frozenset({0, 143})
"""Of a command that SIGTERM ends: in good order, or before it had begun."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """Where the commands find what they work on.

    :ivar topic: with a channel ``c``, and a message in it
    """

    lookupd_url: str
    nsqd: Server
    topic: str
    directory: Path


@dataclass(frozen=True, slots=True)
class Case:
    """A command that works.

    :ivar arguments: made for a cluster
    :ivar prints: whether it writes to standard output
    :ivar ends: whether it comes to its end by itself
    """

    arguments: Callable[[Cluster], list[str]]
    prints: bool = True
    ends: bool = True

    @property
    def codes(self) -> frozenset[int]:
        """What it can exit with when nothing is wrong."""
        return frozenset({0}) if self.ends else RUNS_ON


def _from(cluster: Cluster) -> list[str]:
    return ["--topic", cluster.topic, "--channel", "c", "--nsqd-tcp-address", cluster.nsqd.tcp_address]


def _servers(cluster: Cluster) -> list[str]:
    return ["--lookupd-http-address", cluster.lookupd_url]


CASES = {
    "help": Case(lambda _: ["--help"]),
    "version": Case(lambda _: ["--version"]),
    "help of a command": Case(lambda _: ["to-file", "--help"]),
    "completion": Case(lambda _: ["completion", "zsh"]),
    "tail": Case(lambda cluster: ["tail", *_from(cluster), "-n", "1"]),
    "tail --json": Case(lambda cluster: ["tail", *_from(cluster), "-n", "1", "--json", "--print-topic"]),
    "pub": Case(
        lambda cluster: [
            *("pub", "--topic", cluster.topic, "--nsqd-tcp-address", cluster.nsqd.tcp_address),
            str(cluster.directory / "messages"),
        ],
        prints=False,
    ),
    "stat": Case(lambda cluster: ["stat", *_servers(cluster), "--count", "1", "--interval", "50ms"]),
    "exporter": Case(
        lambda cluster: ["exporter", *_servers(cluster), "--http-address", "127.0.0.1:0"],
        prints=False,
        ends=False,
    ),
    "admin": Case(
        lambda cluster: ["admin", *_servers(cluster), "--http-address", "127.0.0.1:0"],
        prints=False,
        ends=False,
    ),
    "topic list": Case(lambda cluster: ["topic", "list", *_servers(cluster)]),
    "topic create": Case(lambda cluster: ["topic", "create", cluster.topic, *_servers(cluster)]),
    "channel pause": Case(lambda cluster: ["channel", "unpause", cluster.topic, "c", *_servers(cluster)]),
    "node list": Case(lambda cluster: ["node", "list", *_servers(cluster)]),
    "demo": Case(lambda _: ["demo", "--messages", "100"]),
    "demo --json": Case(lambda _: ["demo", "--messages", "100", "--json"]),
    "spool": Case(lambda _: ["spool", "list", "--help"]),
    "pipeline": Case(lambda _: ["pipeline", "archive", "--help"]),
    "to-file": Case(
        lambda cluster: ["to-file", *_from(cluster), "--output-dir", str(cluster.directory / "archive")],
        prints=False,
        ends=False,
    ),
    "to-http": Case(
        lambda cluster: ["to-http", *_from(cluster), "--post", f"{cluster.nsqd.http_url}/ping"],
        prints=False,
        ends=False,
    ),
    "to-nsq": Case(
        lambda cluster: [
            *("to-nsq", *_from(cluster), "--destination-topic", "others"),
            *("--destination-nsqd-tcp-address", cluster.nsqd.tcp_address),
        ],
        prints=False,
        ends=False,
    ),
    "run": Case(
        lambda cluster: ["run", "builtins:repr", *_from(cluster)],
        prints=False,
        ends=False,
    ),
    "delay stats": Case(lambda _: ["delay", "stats", "--help"]),
    "delay serve": Case(
        lambda cluster: [
            *("delay", "serve", str(cluster.directory / "delays.db")),
            *("--nsqd-tcp-address", cluster.nsqd.tcp_address),
        ],
        prints=False,
        ends=False,
    ),
    "up": Case(lambda _: ["up", "--nsqds", "1", "--free-ports"], ends=False),
    "nsqd": Case(
        lambda _: ["nsqd", "--tcp-address=127.0.0.1:0", "--http-address=127.0.0.1:0"],
        prints=False,
        ends=False,
    ),
    "nsqlookupd": Case(
        lambda _: ["nsqlookupd", "--tcp-address=127.0.0.1:0", "--http-address=127.0.0.1:0"],
        prints=False,
        ends=False,
    ),
}
