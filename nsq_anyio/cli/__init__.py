"""The ``nsq-anyio`` command; it needs the extra ``cli``."""

from __future__ import annotations

import sys

__all__ = ["main"]

_EXTRA = frozenset({"click", "rich"})


def main() -> None:
    """Run the command line of this process and exit."""
    try:
        from .main import cli  # noqa: PLC0415 - the package has to be importable without the extra

        cli(prog_name="nsq-anyio")
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _EXTRA:
            raise
        sys.exit(f"nsq-anyio: {missing} is not installed: pip install 'nsq-anyio[cli]'")
