"""Open and close the connections of a consumer, and give each its part of the budget.

::

    supervisor
    ├ discovery        finds the nsqds that have the topic (with nsqlookupds)
    ├ a task per nsqd  connects, subscribes, stays until released; reconnects to static nsqds
    ├ tick             checks deadlines and the RDY distribution, and whether a taker waits in vain
    └ distribution     spreads the budget over the connections
      ├ backoff        ends the waits of backoff
      ├ up to date     changes the RDY counts once something has changed
      ├ settle         waits until lowered RDY counts have taken effect
      └ slot queue     waits for a first slot, when other consumers hold all slots of a shared budget
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from ..address import Address, NsqdAddress
from ..connection import Experience, open_connection
from ..connection.flow import LoopWatch
from ..errors import ConnectionFailed, InvalidOption, PermanentRefusal, TLSFailed
from ..events import Connected, ConnectFailed, Disconnected, Emitter, LoopBlocked, Starved, Subscribed
from ..options import ConnectionOptions, ConsumerOptions
from ..policy.complaints import Starvation
from ..policy.reconnect import ReconnectDelay
from .distribution import Distribution
from .inbox import Inbox
from .message import GivesUp, MakeMessage, Message
from .statistics import Counters
from .subscription import Subscription
from .touching import Touching

if TYPE_CHECKING:
    from ..discovery import Discovery

BeforeSubscribing = Callable[[str], Awaitable[None]]
"""Awaited with the address of an nsqd right before SUB, which creates what is not there. If it raises
`ConnectionFailed`, there is no SUB."""


class Supervisor:
    """Runs the connections of one consumer.

    :param nsqds: static addresses; empty with ``discovery``
    :param discovery: finds the nsqds; None with static addresses
    :param before_subscribing: awaited right before SUB; None if there is nothing to ask
    :param fail: called with the error that ends the consumer
    :ivar closed_counters: the counters of connections that have ended, by the address of the nsqd
    :ivar has_subscribed: whether an nsqd has accepted a subscription
    :ivar decided: set once that is so, or `stop` was called
    """

    def __init__(
        self,
        topic: str,
        channel: str,
        *,
        nsqds: Sequence[NsqdAddress],
        discovery: Discovery | None,
        inbox: Inbox,
        max_in_flight: int | None,
        limiter: anyio.CapacityLimiter | None,
        options: ConsumerOptions,
        connection_options: ConnectionOptions,
        before_subscribing: BeforeSubscribing | None,
        emit: Emitter,
        fail: Callable[[Exception], None],
        make_message: MakeMessage,
        giving_up: GivesUp[Message],
    ) -> None:
        self.topic = topic
        self.channel = channel
        self.subscriptions: dict[NsqdAddress, Subscription] = {}
        self.closed_counters: dict[str, Counters] = {}
        self.has_subscribed: bool = False
        self.decided: anyio.Event = anyio.Event()
        self._nsqds = nsqds
        self._discovery = discovery
        self._inbox = inbox
        self._options = options
        self._connection_options = connection_options
        self._before_subscribing = before_subscribing
        self._emit = emit
        self._fail = fail
        self._giving_up = giving_up
        self._touching = Touching()
        self._make_message = make_message
        self._rng = random.Random()
        self.distribution: Distribution = Distribution(max_in_flight, limiter, options, emit, fail)
        self._loop_watch = LoopWatch()
        self._starvation = Starvation()
        self._takes_ahead = False
        self._msg_timeout = math.inf  # the shortest of any nsqd
        self._left: dict[Address, float] = {}  # when each discovered nsqd was left; infinity until then
        self._reconnects: dict[NsqdAddress, ReconnectDelay] = defaultdict(
            lambda: ReconnectDelay(options.reconnect_delay, options.max_reconnect_delay)
        )
        self._stopping = False
        self._refused = False
        self._experience = Experience()

    @property
    def wanted(self) -> Iterable[NsqdAddress]:
        """The nsqds to connect to, whether they are connected or not."""
        if self._discovery is None:
            return self._nsqds
        return [address for address, left in self._left.items() if left == math.inf]

    def counters(self) -> dict[str, Counters]:
        """Return the counters of all connections, by the address of the nsqd."""
        found = defaultdict[str, Counters](Counters)
        for nsqd, counters in self.closed_counters.items():
            found[nsqd].add(counters)
        for subscription in self.subscriptions.values():
            found[subscription.nsqd].add(subscription.in_flight.counters)
        return found

    async def run(self) -> None:
        """Connect and stay connected, until cancelled."""
        async with anyio.create_task_group() as tasks:
            for address in self._nsqds:
                tasks.start_soon(self._keep_connected, address)
            if self._discovery is not None:
                tasks.start_soon(
                    self._discovery.run,
                    lambda: self._connect_missing(tasks),
                    lambda: self._prune_vanished(tasks),
                    lambda: bool(self.subscriptions),
                )
            tasks.start_soon(self._tick)
            tasks.start_soon(self._touching.run)
            tasks.start_soon(self.distribution.run)

    # Connections

    def _connect_missing(self, tasks: TaskGroup) -> None:
        if self._discovery is None or self._stopping:
            return
        for address in self._discovery.directory.missing(self._left):
            self._left[address] = math.inf
            tasks.start_soon(self._serve_discovered, address, self._discovery)

    def _prune_vanished(self, tasks: TaskGroup) -> None:
        polls = self._options.prune_after_polls
        if self._discovery is None or self._stopping or not polls:
            return
        discovered = [address for address in self.subscriptions if isinstance(address, Address)]
        for address in self._discovery.directory.vanished(discovered, polls):
            options = self._options
            subscription = self.subscriptions[address]
            tasks.start_soon(subscription.retire, options.drain_timeout, options.close_timeout)

    async def _serve_discovered(self, address: Address, discovery: Discovery) -> None:
        """Serve a discovered nsqd once. After that, a new answer of an nsqlookupd decides on a reconnect."""
        delay = await self._serve(address)
        await anyio.sleep(delay)
        self._left[address] = anyio.current_time()
        discovery.poll_soon()

    async def _keep_connected(self, address: NsqdAddress) -> None:
        """Serve a static nsqd, and reconnect whenever it is lost, with growing delays while it fails."""
        while not (self._stopping or self._refused):
            delay = await self._serve(address)
            await anyio.sleep(delay)

    async def _serve(self, address: NsqdAddress) -> float:
        """Open a connection, and keep it until it is released or lost; return the delay before the next."""
        subscription = Subscription(
            address,
            self.topic,
            self.channel,
            inbox=self._inbox,
            backoff=self.distribution.backoff,
            options=self._options,
            emit=self._emit,
            redistribute=self.distribution.redistribute,
            loop_watch=self._loop_watch,
            giving_up=self._giving_up,
            touching=self._touching,
            make_message=self._make_message,
        )
        subscribed_at: float | None = None
        self.distribution.opens(address)
        try:
            async with open_connection(
                address,
                self._connection_options,
                subscription,
                experience=self._experience,
                is_discovered=self._discovery is not None,
            ) as connection:
                version = connection.identity.version
                self._emit(Connected(str(address), version, connection.mapped_to, **self._emit.source))
                attached_at = anyio.current_time()
                subscription.attach(connection, attached_at)
                self._msg_timeout = min(self._msg_timeout, connection.identity.msg_timeout)
                if self._before_subscribing is not None:
                    await self._before_subscribing(str(address))
                await connection.subscribe(self.topic, self.channel)
                subscribed_at = anyio.current_time()
                subscription.ready.note_round_trip(subscribed_at - attached_at)
                self._add(subscription)
                try:
                    await subscription.wait_released()
                finally:
                    self._remove(subscription)
        except (InvalidOption, PermanentRefusal, TLSFailed) as error:
            self._refused = True
            self._emit(ConnectFailed(str(address), error, None, **self._emit.source))
            self._fail(error)
        except ConnectionFailed as error:
            if subscription.released:
                return 0.0  # `drain` has emitted the event
            happened = ConnectFailed if subscribed_at is None else Disconnected
            lasted = 0.0 if subscribed_at is None else anyio.current_time() - subscribed_at
            retry_in = None if self._stopping else self._reconnects[address].after(lasted, self._rng)
            self._emit(happened(str(address), error, retry_in, **self._emit.source))
            return retry_in or 0.0
        finally:
            self.distribution.attempt_over(address)
        return 0.0

    def _add(self, subscription: Subscription) -> None:
        self._emit(Subscribed(subscription.nsqd, **self._emit.source))
        self.subscriptions[subscription.address] = subscription
        self.has_subscribed = True
        self.decided.set()
        if self._stopping:
            subscription.stop()
        self.distribution.add(subscription.ready, subscription.address)

    def _remove(self, subscription: Subscription) -> None:
        del self.subscriptions[subscription.address]
        subscription.hand_back_at_once()
        subscription.detach(self.closed_counters.setdefault(subscription.nsqd, Counters()))
        self.distribution.remove(subscription.ready)

    # Regular checks, and the end

    async def _tick(self) -> None:
        while True:
            blocked = await self._loop_watch.sleep(self._options.rdy_redistribute_interval)
            if blocked > self._msg_timeout / 2:  # `keep_alive` touches a message after that time
                self._emit(LoopBlocked(blocked, self._msg_timeout, **self._emit.source))
            self._emit.log_the_rest()
            now = anyio.current_time()
            self._inbox.update_time(now)
            for subscription in list(self.subscriptions.values()):
                subscription.in_flight.expire(now)
            self._report_starvation(now)
            self.distribution.redistribute()

    def take_ahead(self) -> None:
        """Report no `Starved`: whoever waits for messages leaves those before unanswered on purpose."""
        self._takes_ahead = True

    def _report_starvation(self, now: float) -> None:
        holding = [each.in_flight for each in self.subscriptions.values() if each.in_flight]
        unanswered = sum(map(len, holding))
        arrived = max((each.last_message_at for each in holding), default=now)
        if self._starvation.due(
            now,
            is_awaited=self._inbox.is_awaited and not self._takes_ahead,
            unanswered=unanswered,
            most=self.distribution.max_in_flight,
            arrived=arrived,
        ):
            self._emit(Starved(unanswered, now - arrived, **self._emit.source))

    def stop(self) -> None:
        """Receive no more messages, and hand back those that nobody has taken."""
        self._stopping = True
        self.decided.set()
        self.distribution.stop()
        for subscription in self.subscriptions.values():
            subscription.stop()
        for message in self._inbox.stop():
            message.requeue(0, backoff=False)

    async def drain(self) -> None:
        """Stop, hand back every unanswered message, and close, within ``close_timeout``."""
        self.stop()
        with anyio.move_on_after(self._options.close_timeout):
            async with anyio.create_task_group() as tasks:
                for subscription in list(self.subscriptions.values()):
                    tasks.start_soon(subscription.drain)
        self._emit.log_the_rest(at_once=True)
