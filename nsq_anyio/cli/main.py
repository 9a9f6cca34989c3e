"""The group of all commands."""

from __future__ import annotations

import sys
from typing import Any

import click

from .admin.channel import channel
from .admin.node import node
from .admin.topic import topic
from .completion import completion
from .demo import demo
from .exit_codes import OUTPUT_CLOSED
from .pipeline import pipeline
from .pub import pub
from .run import leave_output
from .servers import nsqd, nsqlookupd
from .spool import spool
from .stat import stat
from .tail import tail
from .to_file import to_file
from .to_http.command import to_http
from .to_nsq.command import to_nsq
from .up import up

__all__ = ["cli"]


class _AllCommands(click.Group):
    def invoke(self, ctx: click.Context) -> Any:
        """See `click.Group.invoke`; a closed output has the same exit code in all commands."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            leave_output()
            sys.exit(OUTPUT_CLOSED)


@click.group(
    cls=_AllCommands,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "NSQ_ANYIO"},
    epilog="\b\nExample:\n  nsq-anyio demo\n  nsq-anyio tail --help",
)
@click.version_option(allow_from_autoenv=False, package_name="nsq-anyio", prog_name="nsq-anyio")
def cli() -> None:
    """NSQ at the command line: print, publish, archive, forward and watch messages; look after topics."""


_COMMANDS: tuple[click.Command, ...] = (
    tail,
    pub,
    stat,
    demo,
    up,
    nsqd,
    nsqlookupd,
    to_file,
    to_http,
    to_nsq,
    topic,
    channel,
    node,
    pipeline,
    spool,
    completion,
)
for _command in _COMMANDS:
    cli.add_command(_command)
