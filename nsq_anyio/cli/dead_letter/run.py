"""A check of the servers before a command runs; not in `command` because it imports an event loop."""

from __future__ import annotations

import anyio

from ...service.draining import Draining
from ..reach import check_reachable
from .flags import LettersFlags


def reaching(flags: LettersFlags, main: Draining) -> Draining:
    """Return a function that checks that the servers are reachable, and then runs ``main``.

    The function raises `click.ClickException` if no server is reachable.
    """

    async def run(stop: anyio.Event) -> None:
        await check_reachable(flags.source, flags.consumer)
        await main(stop)

    return run
