"""How each command ends: its exit code, and what stands on stderr."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import NoReturn

import click

from .signals import SIGNALLED, EndedBySignal
from .streams import OutputClosed, OutputFailed, leave_output
from .visible import visible

__all__ = ["FAILED", "OUTPUT_CLOSED", "PARTIAL", "exit_after"]

FAILED = 1
"""It could not do what was asked, and said why on stderr. Code 2, click's own, is a wrong command line."""

PARTIAL = 3
"""Some servers did what was asked and others failed, or only a part of the input was handled."""

OUTPUT_CLOSED = 141
"""Whoever read its output went away; what a program shows that SIGPIPE ends."""


def exit_after(command: Callable[[], int | None]) -> NoReturn:
    """Run a command, and end the process as it ended.

    :param command: raises what click's commands raise; an int that it returns is the exit code
    """
    try:
        code = command() or 0
        sys.stdout.flush()
    except EndedBySignal as error:
        code = SIGNALLED + error.number
    except click.Abort:
        click.echo("Aborted!", err=True)
        code = FAILED
    except click.ClickException as error:
        _show(error)
        code = error.exit_code
    except (OutputClosed, BrokenPipeError):
        leave_output()
        code = OUTPUT_CLOSED
    except OutputFailed as error:
        leave_output()
        _show(click.ClickException(str(error)))
        code = FAILED
    sys.exit(code)


def _show(error: click.ClickException) -> None:
    """Say what went wrong; what a server said in it must not control the terminal."""
    text = io.StringIO()
    error.show(text)
    click.echo(visible(text.getvalue()), err=True, nl=False)
