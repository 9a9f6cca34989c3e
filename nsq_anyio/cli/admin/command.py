"""From an action to its command."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from ..command import UtilityCommand, quiet_command_flags
from ..flags.cluster import ClusterFlags, cluster_flags
from .actions import Action
from .perform import Task

__all__ = ["action_command"]


def action_command(action: Action, group: str, arguments: Sequence[str], example: str) -> click.Command:
    """The command of an action.

    :param group: the group that it belongs to
    :param arguments: what it is done to, such as topic and channel; the first is the topic
    :param example: the arguments of one
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

    command = click.option("--json", "as_json", is_flag=True, help="Print one line of JSON.")(run)
    command = click.option("--yes", "-y", is_flag=True, help="Do not ask before messages are thrown away.")(
        command
    )
    command = click.option(
        "--dry-run", is_flag=True, help="Tell which servers it would touch, and change nothing."
    )(command)
    command = cluster_flags(quiet_command_flags(command))
    for name in reversed(arguments):
        command = click.argument(name)(command)
    line = f"nsq-anyio {group} {action.verb} {example} --lookupd-http-address=127.0.0.1:4161"
    return click.command(action.verb, cls=UtilityCommand, help=action.help, epilog=f"\b\nExample:\n  {line}")(
        command
    )
