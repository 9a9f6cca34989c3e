"""The commands that list topics, channels and nodes."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ..command import UtilityCommand, quiet_command_flags
from ..flags.cluster import ClusterFlags, cluster_flags
from ..visible import visible
from .ask import Call, ask, end_with, failure_rows

if TYPE_CHECKING:
    from rich.table import Table

    from ...http import Node

__all__ = ["list_command", "node_list"]

_json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one line of JSON, with the servers that failed."
)


def list_command(group: str, arguments: Sequence[str], question: Call, text: str) -> click.Command:
    """A command that prints names, one a line.

    :param group: topic or channel
    :param arguments: of what
    :param question: asks for the names, given the cluster and the arguments
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

    command = cluster_flags(quiet_command_flags(_json_option(run)))
    for name in reversed(arguments):
        command = click.argument(name)(command)
    of = "clicks " if arguments else ""
    line = f"nsq-anyio {group} list {of}--lookupd-http-address=127.0.0.1:4161"
    return click.command("list", cls=UtilityCommand, help=text, epilog=f"\b\nExample:\n  {line}")(command)


@click.command(
    "list",
    cls=UtilityCommand,
    epilog="\b\nExample:\n  nsq-anyio node list --lookupd-http-address=127.0.0.1:4161",
)
@cluster_flags
@_json_option
@quiet_command_flags
def node_list(cluster: ClusterFlags, as_json: bool, backend: str) -> None:
    """List all nsqds, with their topics."""
    reply = ask(cluster, lambda servers: servers.nodes(), backend)
    if as_json:
        rows = [{"name": node.name, **dataclasses.asdict(node)} for node in reply.value]
        click.echo(json.dumps({"nodes": rows, "failures": failure_rows(reply.failures)}))
    else:
        from rich.console import Console

        # Piped, a row stays a line.
        Console(width=None if sys.stdout.isatty() else 10_000).print(_table(reply.value))
    end_with(reply.failures, click.get_current_context())


def _table(nodes: Sequence[Node]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table("node", "host name", "version", "TCP port", "nsqlookupds", "topics", box=None)
    for node in nodes:
        topics = [f"{topic} (tombstoned)" if topic in node.tombstoned else topic for topic in node.topics]
        cells = (
            *(node.name, node.hostname, node.version, str(node.tcp_port), str(len(node.nsqlookupds))),
            ", ".join(topics),
        )
        table.add_row(*(Text(visible(cell)) for cell in cells))
    return table
