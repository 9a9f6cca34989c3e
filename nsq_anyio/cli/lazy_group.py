"""Groups of commands that describe each command in a whole sentence, and import it when it is called."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMPLETE_VARIABLE = "_NSQ_ANYIO_COMPLETE"
"""The environment variable of a shell's completion requests; click derives it from the program's name."""

_NO_LIMIT = 10_000


class Location(NamedTuple):
    """The location of a command, and its line in the list of commands.

    :ivar command: ``module:name``, the module relative to this package
    :ivar text: the first sentence of its help
    """

    command: str
    text: str


class SentenceGroup(click.Group):
    """A group whose help and completions describe each command in a whole sentence, which click would cut."""

    def sentences(self, ctx: click.Context) -> dict[str, str]:
        """Return the first sentences of the commands' help, by name."""
        found = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        return {name: command.get_short_help_str(_NO_LIMIT) for name, command in found.items() if command}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([*self.sentences(ctx).items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        from click.shell_completion import CompletionItem

        named = self.sentences(ctx).items()
        commands = [CompletionItem(name, help=text) for name, text in named if name.startswith(incomplete)]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]


class LazyGroup(SentenceGroup):
    """A group that imports a command when it is called; importing all takes longer than most commands run.

    :param locations: the commands' locations, by name
    """

    def __init__(self, *args: Any, locations: Mapping[str, Location], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.locations: Mapping[str, Location] = locations

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(self.locations)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        location = self.locations.get(cmd_name)
        if location is None:
            return None
        module, _, name = location.command.partition(":")
        command: click.Command = getattr(importlib.import_module(module, __package__), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Suggest names in place of an unknown one; click does not know the names of this group."""
        name = args[0]
        if name in self.locations or name.startswith("-") or ctx.resilient_parsing:
            return super().resolve_command(ctx, args)
        from difflib import get_close_matches

        like_here = name.lower().replace("_", "-").removeprefix("nsq-")  # nsq_to_file is to-file
        near = get_close_matches(like_here, self.locations)
        suggestion = f" Did you mean {' or '.join(map(repr, near))}?" if near else ""
        raise click.UsageError(f"No such command {name!r}.{suggestion}", ctx)

    def sentences(self, ctx: click.Context) -> dict[str, str]:
        """Return the sentences without importing the commands."""
        return {name: self.locations[name].text for name in self.list_commands(ctx)}


def subcommands(group: click.Group) -> dict[str, click.Command]:
    """Import the commands of a group, and return them by name."""
    context = click.Context(group)
    found = {name: group.get_command(context, name) for name in group.list_commands(context)}
    return {name: command for name, command in found.items() if command is not None}
