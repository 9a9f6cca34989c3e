"""``topic``, ``channel`` and ``node``, on an embedded cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count
from typing import Any

import anyio.from_thread
import click
import httpx
import pytest
from click.testing import CliRunner, Result

import nsq_anyio as nsq
from nsq_anyio.cli.backend import BACKENDS
from nsq_anyio.cli.lazy_group import subcommands
from nsq_anyio.cli.main import cli

DEAD = "127.0.0.1:1"
GROUPS = ("topic", "channel", "node")

_numbers = count(1)


@dataclass(frozen=True)
class Cluster:
    """An nsqlookupd and two nsqds outside of the command's own event loop."""

    nsqlookupd: str
    nsqds: Sequence[str]

    def run(self, *arguments: str, input: str = "") -> Result:
        return CliRunner().invoke(
            cli,
            [*arguments, f"--lookupd-http-address={self.nsqlookupd.removeprefix('http://')}"],
            input=input,
            prog_name="nsq-anyio",
        )

    def publish(self, topic: str, *nsqds: int) -> None:
        for number in nsqds:
            reply = httpx.post(
                f"{self.nsqds[number]}/mpub?topic={topic}", content=b"a\nb\nc", trust_env=False
            )
            assert reply.status_code == 200

    def stats(self, number: int, topic: str) -> list[dict[str, Any]]:
        url = f"{self.nsqds[number]}/stats?format=json&topic={topic}"
        topics: list[dict[str, Any]] | None = httpx.get(url, trust_env=False).json()["topics"]
        return topics or []

    def name(self, number: int) -> str:
        return self.nsqds[number].removeprefix("http://")


@pytest.fixture(scope="module")
def cluster() -> Generator[Cluster]:
    with ExitStack() as stack:
        portal = stack.enter_context(anyio.from_thread.start_blocking_portal())
        nsqlookupd = stack.enter_context(portal.wrap_async_context_manager(nsq.embedded.nsqlookupd()))
        nsqds = [
            stack.enter_context(
                portal.wrap_async_context_manager(
                    nsq.embedded.nsqd(lookupd_tcp_addresses=[nsqlookupd.tcp_address])
                )
            ).http_url
            for _ in range(2)
        ]
        yield Cluster(nsqlookupd.http_url, nsqds)


@pytest.fixture
def topic(cluster: Cluster) -> str:
    """A topic with three messages on each of both nsqds, and a channel ``archive`` that has them."""
    name = f"topic-{next(_numbers)}"
    for number, url in enumerate(cluster.nsqds):
        for path in (f"topic/create?topic={name}", f"channel/create?topic={name}&channel=archive"):
            assert httpx.post(f"{url}/{path}", trust_env=False).status_code == 200
        cluster.publish(name, number)
    until(lambda: cluster.run("topic", "list"), name)
    until(lambda: cluster.run("channel", "list", name), "archive")
    return name


def until(ask: Callable[[], Result], line: str) -> None:
    """nsqds register with nsqlookupd, and topics feed their channels, a moment later."""
    for _ in range(500):
        if line in ask().stdout.splitlines():
            return
    raise AssertionError(f"{line} did not come")


@pytest.mark.parametrize("backend", BACKENDS)
def test_lists(cluster: Cluster, topic: str, backend: str) -> None:
    listed = cluster.run("topic", "list", "--backend", backend)
    assert (listed.exit_code, listed.stderr) == (0, "")
    assert listed.stdout.splitlines() == sorted(listed.stdout.splitlines())
    channels = cluster.run("channel", "list", topic, "--json", "--backend", backend)
    assert json.loads(channels.stdout) == {"topic": topic, "channels": ["archive"], "failures": []}
    nodes = cluster.run("node", "list", "--json", "--backend", backend)
    rows = json.loads(nodes.stdout)["nodes"]
    assert sorted(row["name"] for row in rows) == sorted(map(cluster.name, range(2)))
    assert all(topic in row["topics"] for row in rows)


def test_piped_a_node_is_a_line(cluster: Cluster, topic: str) -> None:
    header, *rows = cluster.run("node", "list").stdout.splitlines()
    assert header.split() == ["node", "host", "name", "version", "TCP", "port", "nsqlookupds", "topics"]
    assert sorted(row.split()[0] for row in rows) == sorted(map(cluster.name, range(2)))
    assert all(topic in row for row in rows)


@pytest.mark.parametrize("backend", BACKENDS)
def test_pause_and_unpause(cluster: Cluster, topic: str, backend: str) -> None:
    for verb, paused in (("pause", True), ("unpause", False)):
        done = cluster.run("channel", verb, topic, "archive", "--backend", backend)
        expected = {f"{url}: {verb}d topic {topic} channel archive" for url in cluster.nsqds}
        assert (done.exit_code, set(done.stdout.splitlines())) == (0, expected)
        assert [cluster.stats(number, topic)[0]["channels"][0]["paused"] for number in (0, 1)] == [paused] * 2
        done = cluster.run("topic", verb, topic, "--json", "--backend", backend)
        summary = json.loads(done.stdout)
        assert sorted(summary.pop("done")) == sorted(cluster.nsqds)
        assert summary == {"action": verb, "topic": topic, "failures": []}
        assert [cluster.stats(number, topic)[0]["paused"] for number in (0, 1)] == [paused] * 2


def test_create(cluster: Cluster) -> None:
    name = f"topic-{next(_numbers)}"
    done = cluster.run("topic", "create", name, f"--nsqd-http-address={cluster.name(1)}")
    assert done.exit_code == 0
    assert set(done.stdout.splitlines()) == {
        f"{url}: created topic {name}" for url in (cluster.nsqlookupd, cluster.nsqds[1])
    }
    assert [len(cluster.stats(number, name)) for number in (0, 1)] == [0, 1]
    until(
        lambda: cluster.run("channel", "create", name, "c"),
        f"{cluster.nsqds[1]}: created topic {name} channel c",
    )
    assert cluster.stats(1, name)[0]["channels"][0]["channel_name"] == "c"


@pytest.mark.parametrize(("arguments", "left"), [(("topic", "delete"), []), (("channel", "delete"), [0, 0])])
def test_delete_asks_first(cluster: Cluster, topic: str, arguments: Sequence[str], left: list[int]) -> None:
    names = [topic, "archive"][: 1 + (arguments[0] == "channel")]
    refused = cluster.run(*arguments, *names, input="n\n")
    assert refused.exit_code == 1
    assert refused.stdout == ""
    assert "with 6 messages, on:\n" in refused.stderr
    assert f"  nsqlookupd {cluster.nsqlookupd}\n" in refused.stderr
    assert all(f"  nsqd {url}, 3 messages\n" in refused.stderr for url in cluster.nsqds)
    assert "Delete it? [y/N]" in refused.stderr
    assert all(cluster.stats(number, topic)[0]["channels"] for number in (0, 1))
    nobody = cluster.run(*arguments, *names)
    assert (nobody.exit_code, nobody.stdout) == (1, "")
    done = cluster.run(*arguments, *names, input="y\n")
    assert done.exit_code == 0
    assert len(done.stdout.splitlines()) == 3
    assert [len(row["channels"]) for number in (0, 1) for row in cluster.stats(number, topic)] == left


def test_empty_with_yes_does_not_ask(cluster: Cluster, topic: str) -> None:
    done = cluster.run("channel", "empty", topic, "archive", "--yes")
    assert (done.exit_code, done.stderr) == (0, "")
    assert set(done.stdout.splitlines()) == {
        f"{url}: emptied topic {topic} channel archive" for url in cluster.nsqds
    }
    assert [cluster.stats(number, topic)[0]["channels"][0]["depth"] for number in (0, 1)] == [0, 0]


def test_empty_a_topic_throws_away_what_no_channel_has(cluster: Cluster) -> None:
    name = f"topic-{next(_numbers)}"
    cluster.publish(name, 0)
    until(lambda: cluster.run("topic", "list"), name)
    plan = cluster.run("topic", "empty", name, "-dry-run")
    assert plan.stdout == f"empty topic {name}, with 3 messages, on:\n  nsqd {cluster.nsqds[0]}, 3 messages\n"
    done = cluster.run("topic", "empty", name, "-y", "--json")
    assert json.loads(done.stdout)["done"] == [cluster.nsqds[0]]
    assert cluster.stats(0, name)[0]["depth"] == 0


@pytest.mark.parametrize("verb", ["create", "delete", "empty", "pause", "unpause"])
def test_dry_run_changes_nothing(cluster: Cluster, topic: str, verb: str) -> None:
    before = [cluster.stats(number, topic) for number in (0, 1)]
    for names in ([topic], [topic, "archive"]):
        group = GROUPS[len(names) - 1]
        plan = cluster.run(group, verb, *names, "--dry-run")
        assert (plan.exit_code, plan.stderr) == (0, "")
        assert plan.stdout.startswith(f"{verb} topic {topic}")
        found = json.loads(cluster.run(group, verb, *names, "--dry-run", "--json").stdout)
        lost = 3 if verb == "delete" or (verb == "empty" and group == "channel") else 0
        assert found["dry_run"] is True
        expected = {} if (group, verb) == ("topic", "create") else dict.fromkeys(cluster.nsqds, lost)
        assert found["nsqds"] == expected
        assert found["nsqlookupds"] == ([cluster.nsqlookupd] if verb in {"create", "delete"} else [])
    assert [cluster.stats(number, topic) for number in (0, 1)] == before


@pytest.mark.parametrize("by", ["name", "url"])
def test_tombstone(cluster: Cluster, topic: str, by: str) -> None:
    node = cluster.name(0) if by == "name" else cluster.nsqds[0]
    refused = cluster.run("node", "tombstone", topic, node, input="n\n")
    assert f"nsqd {cluster.nsqds[0]}, 3 messages" in refused.stderr
    done = cluster.run("node", "tombstone", topic, node, "--yes")
    assert (done.exit_code, done.stderr) == (0, "")
    assert [len(cluster.stats(number, topic)) for number in (0, 1)] == [0, 1]


def test_an_unknown_node_is_explained(cluster: Cluster, topic: str) -> None:
    done = cluster.run("node", "tombstone", topic, "nowhere:4151", "--yes")
    assert done.exit_code == 2
    assert "no node is named 'nowhere:4151': use one of 127.0.0.1:" in done.stderr


def test_a_part_that_fails_is_named_and_tells_by_the_exit_code(cluster: Cluster, topic: str) -> None:
    dead = f"--nsqd-http-address={DEAD}"
    for arguments in (
        ("topic", "pause", topic),
        ("topic", "pause", topic, "--dry-run"),
        ("topic", "list"),
        ("node", "list"),
        ("channel", "empty", topic, "archive", "--yes"),
    ):
        done = cluster.run(*arguments, dead)
        assert done.exit_code == 3, arguments
        assert f"Error: http://{DEAD}" in done.stderr
        assert done.stdout
    summary = json.loads(cluster.run("topic", "unpause", topic, "--json", dead).stdout)
    assert sorted(summary["done"]) == sorted(cluster.nsqds)
    (failure,) = summary["failures"]
    assert failure["url"].startswith(f"http://{DEAD}/")
    assert failure["reason"]


def test_who_could_not_be_asked_is_told_with_the_question(cluster: Cluster, topic: str) -> None:
    done = cluster.run("topic", "delete", topic, f"--nsqd-http-address={DEAD}", input="n\n")
    assert done.exit_code == 1
    assert f"Warning: http://{DEAD}" in done.stderr


@pytest.mark.parametrize("arguments", [("topic", "list"), ("node", "list"), ("channel", "pause", "t", "c")])
def test_with_no_server_there_it_is_one_clear_line(arguments: Sequence[str]) -> None:
    done = CliRunner().invoke(cli, [*arguments, f"--lookupd-http-address={DEAD}"])
    assert (done.exit_code, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"Error: http://{DEAD}: no server answered")


def test_an_unknown_topic_fails(cluster: Cluster) -> None:
    done = cluster.run("topic", "pause", "unknown")
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == f"Error: {cluster.nsqlookupd}: no server has this topic\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("topic", "list"), "no server given: use --lookupd-http-address"),
        (("topic", "pause", "two words", "--lookupd-http-address=h:1"), "topic 'two words' is not valid"),
        (("channel", "pause", "t", "a/b", "--nsqd-http-address=h:1"), "channel 'a/b' is not valid"),
        (("topic", "list", "--lookupd-http-address=ftp://h:1"), "ftp://h:1"),
        (("topic", "list", "--lookupd-http-address=h:1", "--header=x"), "header x has no valid value"),
        (("topic", "list", "--lookupd-http-address=h:1", "--http-client-tls-key=k"), "certificate"),
        (("topic", "list", "--lookupd-http-address=h:1", "--http-client-request-timeout=1"), "'1' is not a"),
        (("node", "tombstone", "t", "n", "--yes", "--nsqd-http-address=127.0.0.1:1"), None),
        (("topic", "pause"), "Missing argument 'TOPIC'"),
        (("channel", "pause", "t"), "Missing argument 'CHANNEL'"),
    ],
)
def test_bad_command_lines_are_explained(arguments: Sequence[str], message: str | None) -> None:
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == (1 if message is None else 2)
    assert (message or "no server answered") in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


def commands() -> list[tuple[str, str]]:
    groups = [(name, subcommands(cli)[name]) for name in GROUPS]
    return [
        (name, verb)
        for name, group in groups
        if isinstance(group, click.Group)
        for verb in subcommands(group)
    ]


def test_all_of_nsqadmin_is_there() -> None:
    verbs = ["create", "delete", "empty", "list", "pause", "unpause"]
    assert commands() == [
        *(("topic", verb) for verb in verbs),
        *(("channel", verb) for verb in verbs),
        ("node", "list"),
        ("node", "tombstone"),
    ]


@pytest.mark.parametrize("command", [*[(name,) for name in GROUPS], *commands()], ids=" ".join)
def test_help_has_an_example(command: Sequence[str]) -> None:
    done = CliRunner().invoke(cli, [*command, "--help"])
    assert done.exit_code == 0
    assert f"Example:\n    nsq-anyio {' '.join(command)} " in done.output


def test_headers_are_sent_to_the_servers_named(cluster: Cluster) -> None:
    done = cluster.run("topic", "list", "--header", "Authorization: Bearer s3cret", "--header=X-Source:me")
    assert (done.exit_code, done.stderr) == (0, "")
