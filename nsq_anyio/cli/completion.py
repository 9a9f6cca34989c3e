"""``nsq-anyio completion``: a script that lets a shell complete commands, flags and names."""

from __future__ import annotations

import click

from .main import COMPLETE_VARIABLE
from .shells import SHELLS


@click.command(
    epilog="""\b
Example:
  nsq-anyio completion bash >> ~/.bashrc
  nsq-anyio completion zsh >> ~/.zshrc
  nsq-anyio completion fish > ~/.config/fish/completions/nsq-anyio.fish""",
)
@click.argument("shell", type=click.Choice(list(SHELLS)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes commands, flags and their values in SHELL."""
    root = context.find_root()
    script = SHELLS[shell](root.command, {}, root.info_name or "nsq-anyio", COMPLETE_VARIABLE)
    click.echo(script.source())
