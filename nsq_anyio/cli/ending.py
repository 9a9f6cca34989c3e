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
"""The reader of the output went away; shells report this code for a program that SIGPIPE ended."""


def exit_after(command: Callable[[], int | None]) -> NoReturn:
    """Run a command, then exit the process with its code.

    :param command: may raise the exceptions of click's commands; an int that it returns is the exit code
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
    """Print the error with its control characters escaped: it may quote a server."""
    text = io.StringIO()
    error.show(text)
    click.echo(visible(text.getvalue()), err=True, nl=False)
