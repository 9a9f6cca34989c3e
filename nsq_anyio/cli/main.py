"""The group of all commands."""

from __future__ import annotations

import sys
from typing import Any

import click

from .exit_codes import OUTPUT_CLOSED
from .lazy_group import LazyGroup
from .run import leave_output

__all__ = ["cli"]

_COMMANDS = {
    "tail": ".tail:tail",
    "pub": ".pub:pub",
    "stat": ".stat:stat",
    "to-file": ".to_file:to_file",
    "to-http": ".to_http.command:to_http",
    "to-nsq": ".to_nsq.command:to_nsq",
    "topic": ".admin.topic:topic",
    "channel": ".admin.channel:channel",
    "node": ".admin.node:node",
    "pipeline": ".pipeline:pipeline",
    "spool": ".spool:spool",
    "demo": ".demo:demo",
    "up": ".up:up",
    "nsqd": ".servers:nsqd",
    "nsqlookupd": ".servers:nsqlookupd",
    "completion": ".completion:completion",
}


class _AllCommands(LazyGroup):
    def invoke(self, ctx: click.Context) -> Any:
        """See `click.Group.invoke`; a closed output has the same exit code in all commands."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            leave_output()
            sys.exit(OUTPUT_CLOSED)


@click.group(
    cls=_AllCommands,
    places=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "NSQ_ANYIO"},
    epilog="\b\nExample:\n  nsq-anyio demo\n  nsq-anyio tail --help",
)
@click.version_option(allow_from_autoenv=False, package_name="nsq-anyio", prog_name="nsq-anyio")
def cli() -> None:
    """NSQ at the command line: print, publish, archive, forward and watch messages; look after topics."""
