"""Delivery of messages: the endpoints to try, and the action that follows from their answers."""

from __future__ import annotations

import logging
import random
from collections import OrderedDict
from collections.abc import Callable, Sequence
from hashlib import blake2b
from time import monotonic
from typing import Protocol, TypeAlias

import anyio

from ...consumer import Message
from ...errors import Discard, Requeue
from ...policy.host_choice import EpsilonGreedy, FailingHosts, LeastOutstanding, RoundRobin
from .endpoint import Endpoint
from .sender import Answer
from .status_policy import Action, StatusPolicy

_PICKERS: dict[str, Callable[[], RoundRobin[Endpoint]]] = {
    "hostpool": FailingHosts,
    "round-robin": RoundRobin,
    "epsilon-greedy": lambda: EpsilonGreedy(random.Random()),
    "least-outstanding": LeastOutstanding,
}

_log = logging.getLogger("nsq_anyio.to_http")


class Send(Protocol):
    """Sends a message's body to an endpoint; see `Sender.send`."""

    async def __call__(self, endpoint: Endpoint, body: bytes) -> Answer: ...


Handler: TypeAlias = "ToOne | ToAll"


def handler(mode: str, endpoints: Sequence[Endpoint], send: Send, policy: StatusPolicy) -> Handler:
    """Return the handler for a mode.

    :param mode: a value of ``--mode``
    :param endpoints: 1 or more
    """
    if mode == "all":
        return ToAll(endpoints, send, policy)
    return ToOne(endpoints, send, policy, _PICKERS[mode]())


class ToOne:
    """Sends each message to one endpoint; if that endpoint is broken, tries the next at once.

    :param picker: chooses among the endpoints not tried yet
    """

    def __init__(
        self, endpoints: Sequence[Endpoint], send: Send, policy: StatusPolicy, picker: RoundRobin[Endpoint]
    ) -> None:
        self._endpoints = endpoints
        self._send = send
        self._policy = policy
        self._picker = picker

    async def handle(self, message: Message) -> None:
        """Deliver a message.

        :raises Requeue: if the message must be retried
        :raises Discard: if the policy discards it
        """
        left = list(self._endpoints)
        waits: list[float] = []
        while ready := _ready(left):
            endpoint = self._pick(ready, message)
            answer = await self._send_to(endpoint, message)
            action = _action(self._policy, answer)
            if action is Action.BACKOFF and answer.is_from_broken_endpoint:
                _log.warning("%s: %s", endpoint.shown, answer.reason)
                left.remove(endpoint)
                waits += _wait(answer)
                continue
            if action is Action.DISCARD:
                raise Discard(f"{endpoint.shown}: {answer.reason}")
            if action is not Action.FINISH:
                _note_requeue(message, endpoint, answer)
                raise Requeue(answer.retry_after, backoff=action is Action.BACKOFF)
            return
        raise Requeue(min([*waits, *_waits(left)], default=None))

    def _pick(self, ready: Sequence[Endpoint], message: Message) -> Endpoint:
        endpoint = self._picker.pick(ready, 1, len(message.body), monotonic())
        return endpoint or ready[0]  # never None, as every endpoint has room

    async def _send_to(self, endpoint: Endpoint, message: Message) -> Answer:
        started_at = monotonic()
        answer = await self._send(endpoint, message.body)
        now = monotonic()
        if answer.is_from_broken_endpoint:
            _note_wait(endpoint, answer, now)
            self._picker.failed(endpoint, now)
        else:
            self._picker.succeeded(endpoint, now - started_at, now)
        return answer


class ToAll:
    """Sends each message to all endpoints at once.

    If a message is retried, the endpoints that have accepted it do not get it twice, provided that nsqd
    delivers it to this process again.

    :param max_remembered: the most messages whose accepting endpoints are remembered
    """

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        send: Send,
        policy: StatusPolicy,
        *,
        max_remembered: int = 10_000,
    ) -> None:
        self._endpoints = endpoints
        self._send = send
        self._policy = policy
        self._max_remembered = max_remembered
        self._taken: OrderedDict[tuple[str, str], set[Endpoint]] = OrderedDict()

    async def handle(self, message: Message) -> None:
        """Deliver a message.

        :raises Requeue: if the message must be retried
        """
        key = (message.nsqd, message.id)
        taken = self._taken.pop(key, set())
        left = [endpoint for endpoint in self._endpoints if endpoint not in taken]
        try:
            waits, actions = await self._send_to(left, taken, message)
        finally:
            if len(taken) < len(self._endpoints):
                self._remember(key, taken)
        if len(taken) < len(self._endpoints):
            raise Requeue(max(waits, default=None), backoff=Action.BACKOFF in actions)

    async def _send_to(
        self, endpoints: Sequence[Endpoint], taken: set[Endpoint], message: Message
    ) -> tuple[list[float], set[Action]]:
        """Send the message to ``endpoints``; add each endpoint that no longer needs it to ``taken``.

        :return: the delays in seconds that the other endpoints ask for, and the actions taken
        """
        ready = _ready(endpoints)
        waits = _waits(endpoints)
        actions = {Action.BACKOFF} if len(ready) < len(endpoints) else set[Action]()

        async def send(endpoint: Endpoint) -> None:
            answer = await self._send(endpoint, message.body)
            action = _action(self._policy, answer)
            actions.add(action)
            if action is Action.DISCARD:
                _log.warning("%s: %s: message %s is discarded", endpoint.shown, answer.reason, message.id)
            if action in {Action.FINISH, Action.DISCARD}:
                taken.add(endpoint)
                return
            waits.extend(_wait(answer))
            _note_wait(endpoint, answer, monotonic())
            _note_requeue(message, endpoint, answer)

        async with anyio.create_task_group() as tasks:
            for endpoint in ready:
                tasks.start_soon(send, endpoint)
        return waits, actions

    def _remember(self, key: tuple[str, str], taken: set[Endpoint]) -> None:
        if taken:
            self._taken[key] = taken
        if len(self._taken) > self._max_remembered:
            self._taken.popitem(last=False)


def is_in_sample(message: Message, sample: float) -> bool:
    """Return whether a message belongs to the sample, a fraction ``sample`` (0 to 1) of all.

    The result depends only on the message's id, so every attempt, in any process, decides alike.
    """
    if sample == 1:
        return True
    digest = blake2b(message.id.encode(), digest_size=4).digest()
    return int.from_bytes(digest) < sample * 2**32


def _ready(endpoints: Sequence[Endpoint]) -> list[Endpoint]:
    """Return the endpoints that accept requests now."""
    now = monotonic()
    return [endpoint for endpoint in endpoints if endpoint.free_at <= now]


def _waits(endpoints: Sequence[Endpoint]) -> list[float]:
    """Return the remaining seconds of each pause that an endpoint has asked for."""
    now = monotonic()
    return [endpoint.free_at - now for endpoint in endpoints if endpoint.free_at > now]


def _wait(answer: Answer) -> list[float]:
    return [] if answer.retry_after is None else [answer.retry_after]


def _note_wait(endpoint: Endpoint, answer: Answer, now: float) -> None:
    if answer.retry_after is not None:
        endpoint.free_at = max(endpoint.free_at, now + answer.retry_after)


def _note_requeue(message: Message, endpoint: Endpoint, answer: Answer) -> None:
    _log.warning("%s: %s: message %s is requeued", endpoint.shown, answer.reason, message.id)


def _action(policy: StatusPolicy, answer: Answer) -> Action:
    return Action.BACKOFF if answer.status is None else policy.action(answer.status)
