"""``nsq-anyio topic``, ``channel`` and ``node``: commands that list, and commands that act."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

from ...terminal_text import visible
from ..command import UtilityCommand, quiet_command_flags
from ..flags.cluster import ClusterFlags, cluster_flags
from ..flags.kinds import in_order
from ..flags.names import complete_channel, complete_node, complete_topic
from ..lazy_group import SentenceGroup
from .actions import CHANNEL_ACTIONS, TOMBSTONE, TOPIC_ACTIONS, Action, Call, cluster_method
from .perform import Task, ask, end_with, failure_rows

if TYPE_CHECKING:
    from rich.table import Table

    from ...http import Node

_json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one line of JSON, with the servers that failed."
)

_COMPLETE = {"topic": complete_topic, "channel": complete_channel, "node": complete_node}

_ACTION_FLAGS = (
    click.option("--dry-run", is_flag=True, help="Show which servers would be affected, and change nothing."),
    click.option("--yes", "-y", is_flag=True, help="Do not ask before discarding messages."),
    click.option("--json", "as_json", is_flag=True, help="Print one line of JSON."),
)


def _command(
    run: Callable[..., None],
    group: str,
    verb: str,
    arguments: Sequence[str],
    flags: Sequence[Callable[[Any], Any]],
    *,
    help: str,
    example: str,
) -> click.Command:
    """Return the command of a verb, with the flags that name a cluster.

    :param arguments: the names of the command's arguments
    :param flags: the command's own flags
    :param example: the arguments of the example in the help
    """
    named = [click.argument(each, shell_complete=_COMPLETE[each]) for each in arguments]
    with_flags = in_order(*named, cluster_flags, quiet_command_flags, *flags)(run)
    line = " ".join(["nsq-anyio", group, verb, *example.split()])
    epilog = f"\b\nExample:\n  {line} \\\n    --lookupd-http-address=127.0.0.1:4161"
    return click.command(verb, cls=UtilityCommand, help=help, epilog=epilog)(with_flags)


def _list_command(group: str, arguments: Sequence[str], question: Call, text: str) -> click.Command:
    """Return a command that prints names, one per line.

    :param group: topic or channel
    :param arguments: the names of the command's arguments
    :param question: queries the names, given the cluster and the arguments
    """

    def run(cluster: ClusterFlags, as_json: bool, backend: str, **names: Any) -> None:
        reply = ask(cluster, lambda servers: question(servers, *names.values()), backend)
        if as_json:
            found = {**names, f"{group}s": reply.value, "failures": failure_rows(reply.failures)}
            click.echo(json.dumps(found))
        else:
            for name in reply.value:
                click.echo(visible(name))
        end_with(reply.failures, click.get_current_context())

    example = "clicks" if arguments else ""
    return _command(run, group, "list", arguments, [_json_option], help=text, example=example)


@click.command(
    "list",
    cls=UtilityCommand,
    epilog="\b\nExample:\n  nsq-anyio node list --lookupd-http-address=127.0.0.1:4161",
)
@cluster_flags
@_json_option
@quiet_command_flags
def _node_list(cluster: ClusterFlags, as_json: bool, backend: str) -> None:
    """List all nsqds, with their topics."""
    reply = ask(cluster, lambda servers: servers.nodes(), backend)
    if as_json:
        rows = [{"name": node.name, **dataclasses.asdict(node)} for node in reply.value]
        click.echo(json.dumps({"nodes": rows, "failures": failure_rows(reply.failures)}))
    else:
        from ..display import print_table

        print_table(_table(reply.value))
    end_with(reply.failures, click.get_current_context())


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


def _action_command(action: Action, group: str, arguments: Sequence[str], example: str) -> click.Command:
    """Return the command of an action.

    :param group: the command's group
    :param arguments: the names of the action's arguments, such as topic and channel; the first is the topic
    :param example: the arguments of the example in the help
    """

    def run(
        cluster: ClusterFlags, dry_run: bool, yes: bool, as_json: bool, backend: str, **names: Any
    ) -> None:
        task = Task(cluster, action, names, backend)
        if dry_run:
            task.explain(as_json=as_json)
        if not yes:
            task.confirm()
        task.perform(as_json=as_json)

    return _command(run, group, action.verb, arguments, _ACTION_FLAGS, help=action.help, example=example)


@click.group(
    cls=SentenceGroup,
    epilog="\b\nExample:\n  nsq-anyio topic pause clicks --lookupd-http-address=127.0.0.1:4161",
)
def topic() -> None:
    """List, create, delete, empty, pause and unpause topics across a cluster."""


topic.add_command(
    _list_command(
        "topic",
        (),
        cluster_method("topics"),
        "List all topics, including those without an nsqd.",
    )
)
for _action in TOPIC_ACTIONS:
    topic.add_command(_action_command(_action, "topic", ("topic",), "clicks"))


@click.group(
    cls=SentenceGroup,
    epilog="\b\nExample:\n  nsq-anyio channel empty clicks archive --lookupd-http-address=127.0.0.1:4161",
)
def channel() -> None:
    """List, create, delete, empty, pause and unpause channels across a cluster."""


channel.add_command(
    _list_command(
        "channel",
        ("topic",),
        cluster_method("channels"),
        "List the channels of a topic.",
    )
)
for _action in CHANNEL_ACTIONS:
    channel.add_command(_action_command(_action, "channel", ("topic", "channel"), "clicks archive"))


@click.group(
    cls=SentenceGroup, epilog="\b\nExample:\n  nsq-anyio node list --lookupd-http-address=127.0.0.1:4161"
)
def node() -> None:
    """List the nsqds of a cluster, and remove a topic from one of them."""


node.add_command(_node_list)
node.add_command(_action_command(TOMBSTONE, "node", ("topic", "node"), "clicks 10.0.0.5:4151"))
