"""What the flags of connections come to, as the commands get it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ...options import ConnectionOptions, ConsumerOptions, ProducerOptions

__all__ = ["ConsumerFlags", "ProducerFlags", "Source"]


@dataclass(frozen=True, slots=True)
class Source:
    """Where messages come from: exactly one of both is given, as `nsq_anyio.consume` takes it."""

    nsqd: tuple[str, ...] | None
    nsqlookupd: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class ConsumerFlags:
    """How to consume.

    :ivar given: the names of those of ``options`` that the user has set
    """

    options: ConsumerOptions
    connection: ConnectionOptions
    max_in_flight: int
    given: frozenset[str] = frozenset()

    def preferring(self, **options: Any) -> ConsumerFlags:
        """The same, with these values for options that the user has not set."""
        return replace(self, options=replace(self.options, **_without(self.given, options)))


@dataclass(frozen=True, slots=True)
class ProducerFlags:
    """How to publish.

    :ivar given: the names of those of ``options`` that the user has set
    """

    options: ProducerOptions
    connection: ConnectionOptions
    given: frozenset[str] = frozenset()

    def preferring(self, **options: Any) -> ProducerFlags:
        """The same, with these values for options that the user has not set."""
        return replace(self, options=replace(self.options, **_without(self.given, options)))


def _without(names: frozenset[str], options: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in names}
