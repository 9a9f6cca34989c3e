"""The loader of the handler and the lifespan that the command line names."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import traceback
from contextlib import AbstractAsyncContextManager
from functools import reduce
from pathlib import Path
from typing import cast

import click

from ...consumer import BatchHandler, Handler
from ...consumer.handler import check_handler
from ...errors import InvalidOption
from ...options.checks import other_parameters


def check_form(text: str, attribute: str) -> tuple[str, str]:
    """Return the names of the module and of the attribute in ``module:attribute``.

    :param attribute: the kind of attribute, for the error
    :raises click.UsageError: if the text has another form
    """
    module, colon, name = text.partition(":")
    names = [*module.split("."), *name.split(".")]
    if not colon or module.endswith(".py") or not all(name.isidentifier() for name in names):
        raise click.UsageError(
            f"{text!r} is not MODULE:{attribute.upper()}: use, for example, 'app.tasks:{attribute}'"
        )
    return module, name


def load_handler(text: str) -> Handler | BatchHandler:
    """Import the handler ``module:handler``, with the current directory first on ``sys.path``.

    :raises click.UsageError: if there is no such module or attribute, or it is not a handler
    :raises click.ClickException: if importing the module fails; the text has the traceback
    """
    handler = _load(text, "handler")
    try:
        check_handler(handler)
    except InvalidOption as error:
        raise click.UsageError(f"{text} is not a handler: {error}") from error
    return cast("Handler | BatchHandler", handler)


def load_lifespan(text: str) -> AbstractAsyncContextManager[object]:
    """Import and call the function ``module:lifespan``, and return the async context manager.

    :raises click.UsageError: if there is no such module or attribute, or it is not a lifespan
    :raises click.ClickException: if importing the module fails; the text has the traceback
    """
    function = _load(text, "lifespan")
    lifespan: object = None
    if callable(function) and not inspect.iscoroutinefunction(function):
        lifespan = function() if other_parameters(function, 0) is None else None
    if not isinstance(lifespan, AbstractAsyncContextManager):
        raise click.UsageError(
            f"{text} is not a lifespan: use a function without parameters that "
            "contextlib.asynccontextmanager decorates"
        )
    return cast("AbstractAsyncContextManager[object]", lifespan)


def _load(text: str, kind: str) -> object:
    name, attribute = check_form(text, kind)
    here = os.getcwd()  # noqa: PTH109 - sys.path has strings
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _failed(name, error) from error  # an import in the module failed
        raise click.UsageError(
            f"there is no module {error.name!r} in {here} or on the Python path"
        ) from error
    except Exception as error:
        raise _failed(name, error) from error
    try:
        return reduce(getattr, attribute.split("."), cast("object", module))
    except AttributeError:
        raise click.UsageError(f"module {name!r} ({_file(module)}) has no {attribute!r}") from None


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
