"""Import commands when they are called: importing all of them takes longer than most of them run."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any, NamedTuple

import click

__all__ = ["LazyGroup", "Place", "subcommands"]


class Place(NamedTuple):
    """The location of a command, and its line in the list of commands.

    :ivar command: ``module:name``, the module relative to this package
    :ivar text: the first sentence of its help
    """

    command: str
    text: str


class LazyGroup(click.Group):
    """A group that imports a command when it is called.

    :param places: the commands' places, by name
    """

    def __init__(self, *args: Any, places: Mapping[str, Place], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.places: Mapping[str, Place] = places

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """See `click.Group.list_commands`."""
        return sorted(self.places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """See `click.Group.get_command`."""
        place = self.places.get(cmd_name)
        if place is None:
            return None
        module, _, name = place.command.partition(":")
        command: click.Command = getattr(importlib.import_module(module, __package__), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """See `click.Group.resolve_command`, which does not know the names here, to suggest one."""
        name = args[0]
        if name in self.places or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        from difflib import get_close_matches

        like_here = name.lower().replace("_", "-").removeprefix("nsq-")  # nsq_to_file is to-file
        near = get_close_matches(like_here, self.places)
        suggestion = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise click.UsageError(f"No such command {name!r}.{suggestion}", ctx)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """See `click.Group.format_commands`, which would import them all."""
        names = self.list_commands(ctx)
        room = formatter.width - 6 - max(map(len, names))
        rows = [
            (name, click.Command(name, help=self.places[name].text).get_short_help_str(room))
            for name in names
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def subcommands(group: click.Group) -> dict[str, click.Command]:
    """Import the commands of a group, and return them by name."""
    context = click.Context(group)
    found = {name: group.get_command(context, name) for name in group.list_commands(context)}
    return {name: command for name, command in found.items() if command is not None}
