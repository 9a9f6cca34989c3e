"""Loads the handler that the command line names."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from functools import reduce
from pathlib import Path
from typing import cast

import click

from ...consumer import Handler
from ...consumer.handler_check import is_async_handler
from ...errors import InvalidOption

__all__ = ["check_form", "load_handler"]


def check_form(text: str) -> tuple[str, str]:
    """Return the names of the module and of the attribute in ``module:attribute``.

    :raises click.UsageError: if the text has another form
    """
    module, colon, attribute = text.partition(":")
    names = [*module.split("."), *attribute.split(".")]
    if not colon or not all(name.isidentifier() for name in names):
        raise click.UsageError(f"{text!r} is not MODULE:HANDLER: use, for example, 'app.tasks:handle'")
    return module, attribute


def load_handler(text: str) -> Handler:
    """Import the handler ``module:attribute``, with the current directory first on ``sys.path``.

    :raises click.UsageError: if there is no such module or attribute, or it is not a handler
    :raises click.ClickException: if importing the module fails; the text has the traceback
    """
    name, attribute = check_form(text)
    here = os.getcwd()  # noqa: PTH109 - sys.path has strings
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _failed(name, error) from error  # a module that this module imports
        raise click.UsageError(
            f"there is no module {error.name!r} in {here} or on the Python path"
        ) from error
    except Exception as error:
        raise _failed(name, error) from error
    try:
        handler = reduce(getattr, attribute.split("."), cast("object", module))
    except AttributeError:
        raise click.UsageError(f"module {name!r} ({_file(module)}) has no {attribute!r}") from None
    try:
        is_async_handler(handler)
    except InvalidOption as error:
        raise click.UsageError(f"{text} is not a handler: {error}") from error
    return cast("Handler", handler)


def _file(module: object) -> str:
    return str(getattr(module, "__file__", None) or "a package without __init__.py")


def _failed(name: str, error: Exception) -> click.ClickException:
    """Return an error that shows the part of the traceback in the user's code."""
    own = {__file__, importlib.__file__}
    shown = traceback.TracebackException.from_exception(error)
    frames = [
        frame
        for frame in shown.stack
        if frame.filename not in own and "importlib._boot" not in frame.filename
    ]
    shown.stack = traceback.StackSummary.from_list(frames)
    text = "".join(shown.format(chain=False)).rstrip()
    return click.ClickException(f"module {name!r} cannot be imported from {Path.cwd()}:\n{text}")
