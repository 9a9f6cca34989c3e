"""``nsq-anyio topic``, ``channel`` and ``node``: commands that list, and commands that act."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

import click

from ...terminal_text import visible
from ..command import UtilityCommand, quiet_command_flags
from ..ending import PARTIAL
from ..flags.cluster import ClusterFlags, cluster_flags
from ..flags.fields import Flags, argument, shared, switch, takes
from ..flags.names import complete_channel, complete_node, complete_topic
from ..lazy_group import SentenceGroup
from .actions import CHANNEL_ACTIONS, TOMBSTONE, TOPIC_ACTIONS, Action, Plan

if TYPE_CHECKING:
    from rich.table import Table

    from ...errors import HTTPError
    from ...http import Cluster, ClusterReply, Node

_T = TypeVar("_T")

_CLUSTER = shared(cluster_flags)
_BACKEND = shared(quiet_command_flags)
_JSON_WITH_FAILURES = switch("Print one line of JSON, with the servers that failed.", "--json")


class _ClusterCommandFlags(Flags):
    """The flags of all commands here; each command declares them in the order of its ``--help``."""

    cluster: ClusterFlags
    backend: str
    as_json: bool


class _TopicListFlags(_ClusterCommandFlags):
    cluster: ClusterFlags = _CLUSTER
    backend: str = _BACKEND
    as_json: bool = _JSON_WITH_FAILURES


class _ChannelListFlags(_TopicListFlags):
    topic: str = argument(shell_complete=complete_topic)


class _NodeListFlags(_ClusterCommandFlags):
    cluster: ClusterFlags = _CLUSTER
    as_json: bool = _JSON_WITH_FAILURES
    backend: str = _BACKEND


class _ActionFlags(_ClusterCommandFlags):
    topic: str = argument(shell_complete=complete_topic)
    cluster: ClusterFlags = _CLUSTER
    backend: str = _BACKEND
    dry_run: bool = switch("Show which servers would be affected, and change nothing.")
    yes: bool = switch("Do not ask before discarding messages.", "--yes", "-y")
    as_json: bool = switch("Print one line of JSON.", "--json")

    def names(self) -> dict[str, str]:
        """Return the arguments of the action's functions, by parameter; the topic comes first."""
        values = vars(self)
        return {kind: values[kind] for kind in ("topic", "channel", "node") if kind in values}


class _ChannelActionFlags(_ActionFlags):
    channel: str = argument(shell_complete=complete_channel)


class _NodeActionFlags(_ActionFlags):
    node: str = argument(shell_complete=complete_node)


def _ask(flags: _ClusterCommandFlags, question: Callable[[Cluster], Awaitable[_T]]) -> _T:
    """Ask the cluster ``question``, and return its answer.

    :raises click.UsageError: for a flag out of range
    :raises click.ClickException: if no server answers
    """
    from ..event_loop import run_to_end

    answers: list[_T] = []

    async def main() -> None:
        async with flags.cluster.open() as servers:
            answers.append(await question(servers))

    run_to_end(main, flags.backend)
    return answers[0]


def _print_json(found: Mapping[str, object], failures: Sequence[HTTPError]) -> None:
    rows = [{"url": failure.url, "reason": failure.reason} for failure in failures]
    click.echo(json.dumps({**found, "failures": rows}))


def _end_with(failures: Sequence[HTTPError]) -> None:
    """Report the failures on stderr, and exit with the code for a partial success if there are any."""
    for failure in failures:
        click.echo(visible(f"Error: {failure}"), err=True)
    click.get_current_context().exit(PARTIAL if failures else 0)


class _Task:
    """An action with the flags of its command."""

    def __init__(self, action: Action, flags: _ActionFlags) -> None:
        self._action = action
        self._flags = flags
        self._names = flags.names()

    def explain(self) -> None:
        """Print what the action would affect."""
        plan = self._plan()
        if self._flags.as_json:
            found = {"action": self._action.verb, **self._names, "dry_run": True}
            servers = {"nsqlookupds": self._nsqlookupds(), "nsqds": plan.nsqds}
            _print_json({**found, **servers}, plan.failures)
        else:
            self._show(plan, err=False)
        _end_with(plan.failures)

    def confirm(self) -> None:
        """Ask before discarding messages.

        :raises click.Abort: if the answer is no
        """
        if not self._action.is_destructive:
            return
        plan = self._plan()
        # The question goes to stderr: stdout, which may be piped, has only the results.
        self._show(plan, err=True)
        for failure in plan.failures:
            click.echo(visible(f"Warning: {failure}"), err=True)
        click.confirm(f"{self._action.verb.capitalize()} it?", abort=True, err=True)

    def perform(self) -> None:
        """Perform the action, and print its result on each server."""
        reply = _ask(self._flags, lambda cluster: self._action.call(cluster, [*self._names.values()]))
        if self._flags.as_json:
            _print_json({"action": self._action.verb, **self._names, "done": reply.value}, reply.failures)
        else:
            for url in reply.value:
                click.echo(visible(f"{url}: {self._action.done} {self._subject}"))
        _end_with(reply.failures)

    @property
    def _subject(self) -> str:
        return " ".join(f"{kind} {name}" for kind, name in self._names.items())

    def _plan(self) -> Plan:
        make = self._action.plan
        if make is None:
            return Plan(dict.fromkeys(self._flags.cluster.shown_nsqds(), 0))
        return _ask(self._flags, lambda cluster: make(cluster, *self._names.values()))

    def _nsqlookupds(self) -> tuple[str, ...]:
        return self._flags.cluster.shown_nsqlookupds() if self._action.includes_nsqlookupds else ()

    def _show(self, plan: Plan, *, err: bool) -> None:
        what = f"{self._action.verb} {self._subject}"
        if self._action.is_destructive:
            what += f", with {_messages(plan.messages)}"
        click.echo(f"{what}, on:", err=err)
        for url in self._nsqlookupds():
            click.echo(f"  nsqlookupd {url}", err=err)
        for url, count in plan.nsqds.items():
            suffix = f", {_messages(count)}" if self._action.is_destructive else ""
            click.echo(visible(f"  nsqd {url}{suffix}"), err=err)


def _messages(count: int) -> str:
    return f"{count:,} message{'' if count == 1 else 's'}"


def _example(line: str, separator: str = " \\\n    ") -> str:
    return f"\b\nExample:\n  nsq-anyio {line}{separator}--lookupd-http-address=127.0.0.1:4161"


def _action_command(action: Action, flags_kind: type[_ActionFlags], group: str, names: str) -> click.Command:
    """Return the command of an action.

    :param names: the arguments of the example in the help
    """

    @click.command(
        action.verb, cls=UtilityCommand, help=action.help, epilog=_example(f"{group} {action.verb} {names}")
    )
    @takes(flags_kind)
    def run(flags: _ActionFlags) -> None:
        task = _Task(action, flags)
        if flags.dry_run:
            task.explain()
        if not flags.yes:
            task.confirm()
        task.perform()

    return run


@click.group(cls=SentenceGroup, epilog=_example("topic pause clicks", " "))
def topic() -> None:
    """List, create, delete, empty, pause and unpause topics across a cluster."""


@topic.command("list", cls=UtilityCommand, epilog=_example("topic list"))
@takes(_TopicListFlags)
def _list_topics(flags: _TopicListFlags) -> None:
    """List all topics, including those without an nsqd."""
    _print_names(flags, {}, "topics", _ask(flags, lambda cluster: cluster.topics()))


for _action in TOPIC_ACTIONS:
    topic.add_command(_action_command(_action, _ActionFlags, "topic", "clicks"))


@click.group(cls=SentenceGroup, epilog=_example("channel empty clicks archive", " "))
def channel() -> None:
    """List, create, delete, empty, pause and unpause channels across a cluster."""


@channel.command("list", cls=UtilityCommand, epilog=_example("channel list clicks"))
@takes(_ChannelListFlags)
def _list_channels(flags: _ChannelListFlags) -> None:
    """List the channels of a topic."""
    reply = _ask(flags, lambda cluster: cluster.channels(flags.topic))
    _print_names(flags, {"topic": flags.topic}, "channels", reply)


for _action in CHANNEL_ACTIONS:
    channel.add_command(_action_command(_action, _ChannelActionFlags, "channel", "clicks archive"))


def _print_names(
    flags: _TopicListFlags, names: Mapping[str, str], kind: str, reply: ClusterReply[tuple[str, ...]]
) -> None:
    """Print the names of a reply, one per line, and end the command."""
    if flags.as_json:
        _print_json({**names, kind: reply.value}, reply.failures)
    else:
        for name in reply.value:
            click.echo(visible(name))
    _end_with(reply.failures)


@click.group(cls=SentenceGroup, epilog=_example("node list", " "))
def node() -> None:
    """List the nsqds of a cluster, and remove a topic from one of them."""


@node.command("list", cls=UtilityCommand, epilog=_example("node list", " "))
@takes(_NodeListFlags)
def _list_nodes(flags: _NodeListFlags) -> None:
    """List all nsqds, with their topics."""
    reply = _ask(flags, lambda cluster: cluster.nodes())
    if flags.as_json:
        rows = [{"name": node.name, **dataclasses.asdict(node)} for node in reply.value]
        _print_json({"nodes": rows}, reply.failures)
    else:
        from ..display import print_table

        print_table(_table(reply.value))
    _end_with(reply.failures)


node.add_command(_action_command(TOMBSTONE, _NodeActionFlags, "node", "clicks 10.0.0.5:4151"))


def _table(nodes: Sequence[Node]) -> Table:
    from rich.text import Text

    from ..display import new_table

    table = new_table("node", "host name", "version", "TCP port", "nsqlookupds", "topics", box=None)
    for node in nodes:
        topics = [f"{topic} (tombstoned)" if topic in node.tombstoned else topic for topic in node.topics]
        cells = (
            *(node.name, node.hostname, node.version, str(node.tcp_port), str(len(node.nsqlookupds))),
            ", ".join(topics),
        )
        table.add_row(*(Text(visible(cell)) for cell in cells))
    return table
