"""``nsq-anyio completion``: the script that makes a shell complete commands and flags."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

__all__ = ["COMPLETE_VARIABLE", "completion"]

COMPLETE_VARIABLE = "_NSQ_ANYIO_COMPLETE"
"""The environment variable through which the script asks; click derives it from the program's name."""


@click.command(
    epilog="""\b
Example:
  nsq-anyio completion bash >> ~/.bashrc
  nsq-anyio completion zsh >> ~/.zshrc
  nsq-anyio completion fish > ~/.config/fish/completions/nsq-anyio.fish""",
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that completes commands, flags and their values in SHELL."""
    root = context.find_root()
    kind = get_completion_class(shell)
    if kind is None:
        raise click.ClickException(f"the installed click cannot complete in {shell}")
    script = kind(root.command, {}, root.info_name or "nsq-anyio", COMPLETE_VARIABLE)
    # The base class's `source` would check the version of the local bash, but the script may run elsewhere.
    # In click's script for fish a description ends at its first comma.
    template = script.source_template.replace('string split ","', 'string split --max 1 ","')
    click.echo(template % script.source_vars())
