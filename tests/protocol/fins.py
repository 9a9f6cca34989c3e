"""FINs that are decoded together, one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nsq_anyio.protocol.client_commands import ClientCommand, Fin


def one_by_one(commands: Iterable[ClientCommand]) -> Iterator[ClientCommand]:
    """Yield the commands, with FINs in a row apart, so that where they were cut makes no difference."""
    for command in commands:
        if isinstance(command, Fin):
            yield from (Fin([id]) for id in command.ids)
        else:
            yield command
