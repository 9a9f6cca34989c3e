"""A bounded cache that computes each value once, however many callers ask for it at the same time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

import anyio

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Keeps the values of the latest generation; a generation is a number, such as a snapshot's.

    :param weigh: returns the weight of a value
    :param most: the most weight that is kept; the least recently used values are dropped first
    """

    def __init__(self, weigh: Callable[[T], int], most: int) -> None:
        self._weigh = weigh
        self._most = most
        self._generation = -1
        self._kept: OrderedDict[Hashable, tuple[T]] = OrderedDict()
        self._weight = 0
        self._computing: dict[Hashable, anyio.Event] = {}

    async def get(self, generation: int, key: Hashable, compute: Callable[[], Awaitable[T]]) -> T:
        """Return the value of a key, and compute it only if it is not kept.

        Callers that ask while it is being computed wait for it. If the computation fails or is cancelled, the
        next caller computes the value.

        :param generation: a higher one drops all values of earlier generations
        """
        place = generation, key
        while (kept := self._kept.get(place)) is None:
            if (computing := self._computing.get(place)) is not None:
                await computing.wait()
                continue
            ended = self._computing[place] = anyio.Event()
            try:
                value = await compute()
            finally:
                del self._computing[place]
                ended.set()
            self._keep(generation, place, value)
            return value
        self._kept.move_to_end(place)
        return kept[0]

    def _keep(self, generation: int, place: Hashable, value: T) -> None:
        if generation > self._generation:
            self._generation = generation
            self._kept.clear()
            self._weight = 0
        weight = self._weigh(value)
        if generation < self._generation or weight > self._most:
            return
        self._kept[place] = (value,)
        self._weight += weight
        while self._weight > self._most:
            _, (dropped,) = self._kept.popitem(last=False)
            self._weight -= self._weigh(dropped)
