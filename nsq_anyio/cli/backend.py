"""The event loops that a command can run on."""

import importlib.util

import click

BACKENDS = ("asyncio", "uvloop", "trio")
_EXTRAS = ("uvloop", "trio")


def default_backend() -> str:
    """Return ``uvloop`` where it is installed, else ``asyncio``; uvloop takes less CPU for the same work."""
    return "uvloop" if _is_installed("uvloop") else "asyncio"


def require_backend(backend: str) -> None:
    """Check that the backend is installed.

    :raises click.UsageError: if it is not; the message names the extra that installs it
    """
    if backend in _EXTRAS and not _is_installed(backend):
        raise click.UsageError(f"{backend} is not installed: pip install 'nsq-anyio[{backend}]'")


def _is_installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None
