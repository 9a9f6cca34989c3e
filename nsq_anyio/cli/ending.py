"""The end of a command: its exit code, and its error on stderr."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from typing import NoReturn

import click

from ..signals import SIGNALLED
from ..terminal_text import visible
from .signals import EndedBySignal
from .streams import OutputClosed, OutputFailed, leave_output

FAILED = 1
"""The command failed, and stderr says why. Code 2, click's own, is for an invalid command line."""

PARTIAL = 3
"""Some servers succeeded and others failed, or only part of the input was processed."""

OUTPUT_CLOSED = 141
"""The reader of the output went away; a program that SIGPIPE ends has this code too."""


def exit_after(command: Callable[[], int | None]) -> NoReturn:
    """Run a command, then exit the process with its code.

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
    """Show the error; a server's text in it must not control the terminal."""
    text = io.StringIO()
    error.show(text)
    click.echo(visible(text.getvalue()), err=True, nl=False)
