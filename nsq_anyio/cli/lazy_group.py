"""Commands that are imported when they are called: all of them together take longer than most of them run."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click

__all__ = ["LazyGroup", "subcommands"]


class LazyGroup(click.Group):
    """A group that knows where its commands are.

    :param places: by the commands' names: ``module:name``, the module relative to this package
    """

    def __init__(self, *args: Any, places: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._places = places

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """See `click.Group.list_commands`."""
        return sorted(self._places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """See `click.Group.get_command`."""
        place = self._places.get(cmd_name)
        if place is None:
            return None
        module, _, name = place.partition(":")
        command: click.Command = getattr(importlib.import_module(module, __package__), name)
        return command


def subcommands(group: click.Group) -> dict[str, click.Command]:
    """The commands of a group by their names, imported if need be."""
    context = click.Context(group)
    found = {name: group.get_command(context, name) for name in group.list_commands(context)}
    return {name: command for name, command in found.items() if command is not None}
