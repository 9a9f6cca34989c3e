"""The group of all commands."""

from __future__ import annotations

import click

from .demo import demo
from .servers import nsqd, nsqlookupd
from .up import up

__all__ = ["cli"]


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nExample:\n  nsq-anyio demo",
)
@click.version_option(package_name="nsq-anyio", prog_name="nsq-anyio")
def cli() -> None:
    """NSQ at the command line: see the client work, run servers for development and tests."""


_COMMANDS: tuple[click.Command, ...] = (demo, up, nsqd, nsqlookupd)
for _command in _COMMANDS:
    cli.add_command(_command)
