"""Copies of a topic's new messages on one nsqd, without taking messages from other consumers.

An ephemeral channel gets only copies as long as the topic also has a lasting channel. Without one, nsqd keeps
the topic's messages for its first channel, which would be the ephemeral one; and the messages of an ephemeral
channel vanish with it, requeued or not. nsqd does not report that a channel was deleted. So it is asked right
before SUB, right after SUB, and then four times a second.

A lasting channel that is older than the ephemeral one has received at least as many messages. A channel that
was deleted and created again has received fewer, unless it has missed none. So an answer in which a lasting
channel has as many messages proves that it has a copy of each. Messages that came since the last proof are
published again, once the ephemeral channel is gone. When a tail leaves its channel, it pauses the topic from
the second answer without a proof on, or from the first if it never had one, until that publish: otherwise
nsqd could put a message into the ephemeral channel while it vanishes.

The connection ends without CLS: nsqd pushes until it sees the end of the stream, and everything that it has
pushed is received. The connection is not opened again, because SUB would create a deleted topic again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import anyio

from ...address import NsqdAddress, nsqd_addresses
from ...connection import Connection, Request, open_connection
from ...errors import HTTPError, NSQError
from ...http import Nsqd
from ...options import ConnectionOptions
from ...protocol import commands
from ...protocol.session import Command, ResponseFailed
from ...tasks import Background
from ..upstream import Upstream
from .topic_nodes import TopicNode

_log = logging.getLogger(__name__)

_MAX_IN_FLIGHT = 64
_INTERVAL = 0.25
"""Seconds between two questions to nsqd. Messages after the last answer may have to be published again."""
_PATIENCE = 2.0
"""Seconds without a proof after which the tail leaves the channel: nsqd has not answered, or the lasting
channel has fewer messages, because it was deleted and created again."""
_LEAVING = 5.0
"""Seconds to receive the messages that no other channel has, and as many to publish them again."""
_UNANSWERED_SUB = 20.0
"""Seconds to wait for the answer to SUB after the last viewer has left: nsqd may still execute it, and when
the connection ends, the channel vanishes with its messages."""
_SOON = 0.05
_AT_ONCE = 1 << 20
"""Bytes to publish at once; nsqd's --max-body-size is 5 MiB by default."""
_MOST_HELD = 64 << 20


class NothingLasts(NSQError):
    """No lasting channel is known to get an nsqd's messages, or the topic is gone there."""


@dataclass(frozen=True, slots=True)
class Copy:
    """One message, as it was received.

    :ivar timestamp: when it was published, in nanoseconds since the epoch
    """

    wire_id: bytes
    nsqd: str
    attempts: int
    timestamp: int
    body: bytes

    @property
    def id(self) -> str:
        """The message's id on its nsqd."""
        return self.wire_id.decode("ascii", "backslashreplace")


class Copies:
    """Receives the copies of one nsqd; the `Receiver` of its connection.

    :param channel: the ephemeral channel
    :param may_drain: whether to consume the backlog if there is no lasting channel
    :param took: called with received messages
    """

    def __init__(
        self,
        node: TopicNode,
        channel: str,
        upstream: Upstream,
        took: Callable[[Sequence[Copy]], None],
        *,
        may_drain: bool,
    ) -> None:
        self._node = node
        self._topic = node.topic.topic_name
        self._channel = channel
        self._upstream = upstream
        self._took = took
        self._may_drain = may_drain
        self._connection: Connection[None, Copy]
        self._subscription: Request | None = None
        self._leaving = anyio.Event()
        self._left = anyio.Event()
        self._unproven: list[Copy] = []
        self._proof: TopicNode | None = (
            None  # the last proof; None once the tail has left the channel without one
        )
        self._has_paused = False

    async def run(self, options: ConnectionOptions, subscribed: Callable[[], None]) -> None:
        """Receive copies until cancelled.

        :param subscribed: called once nsqd has accepted the subscription
        :raises NothingLasts: if the topic has no lasting channel there, or no longer
        :raises NSQError: if the connection cannot be opened or is lost
        """
        # nsqd drops what it has buffered when this side hangs up.
        options = replace(options, output_buffer_size=-1)
        background = Background(lambda: self._receive(options, subscribed, background.fail), self._shut_down)
        try:
            async with background.around_block():
                await anyio.sleep_forever()
        finally:
            if self._unproven or self._has_paused:
                with anyio.CancelScope(shield=True):
                    await self._give_back()

    async def _receive(
        self, options: ConnectionOptions, subscribed: Callable[[], None], fail: Callable[[Exception], None]
    ) -> None:
        try:
            async with open_connection(_address(self._node), options, self) as self._connection:
                await self._ask()
                sub = commands.sub(self._topic, self._channel)
                self._subscription = self._connection.request(Command.SUB, sub)
                self._connection.outbox.put_and_send(commands.rdy(_MAX_IN_FLIGHT))
                await self._subscription.wait()
                subscribed()
                try:
                    await self._keep_asking()
                except NSQError as error:
                    fail(error)
                with anyio.move_on_after(_LEAVING):
                    await self._leave()
        except NSQError as error:
            fail(error)
        finally:
            self._left.set()

    async def _shut_down(self, cancelled: bool) -> None:
        del cancelled
        self._leaving.set()
        if self._subscription is not None:
            with anyio.move_on_after(_UNANSWERED_SUB + _LEAVING):
                await self._left.wait()

    # The receiver

    def arrival(self, now: float, size: int) -> None:
        """Return None: copies need no deadlines."""

    def make_message(
        self, source: None, timestamp: int, attempts: int, message_id: bytes, body: bytes
    ) -> Copy:
        """Make a copy of a message."""
        del source
        return Copy(message_id, self._node.address, attempts, timestamp, body)

    def received(self, messages: list[Copy], now: float) -> None:
        """Finish the messages, which would be lost with the channel in any case."""
        del now
        self._connection.outbox.put(commands.fins([each.wire_id for each in messages]))
        if not self._may_drain:
            self._unproven += messages
        self._took(messages)

    def response_failed(self, failure: ResponseFailed) -> None:
        """Ignore a FIN that came too late: nsqd sends the message again."""

    def may_proceed(self) -> None:
        """Do nothing: nothing waits for answers to be sent."""

    # The messages of lasting channels

    async def _ask(self) -> TopicNode:
        """Ask nsqd which channels the topic has.

        :raises NothingLasts: if the topic is gone, or has no lasting channel there
        :raises HTTPError: if nsqd does not answer
        """
        node = await self._node.again(self._upstream, _PATIENCE)
        if node is None:
            self._unproven.clear()  # they were deleted with the topic
            raise NothingLasts("the topic was deleted")
        if not (self._may_drain or node.lasting_channels):
            raise NothingLasts("the topic has no lasting channel there any more")
        return node

    async def _keep_asking(self) -> None:
        proven_at = anyio.current_time()
        while not self._leaving.is_set():
            known = len(self._unproven)
            try:
                node = await self._ask()
            except HTTPError:
                node = None  # the next request may be answered
            now = anyio.current_time()
            if self._may_drain or (node is not None and self._is_proof(node, known)):
                proven_at = now
            elif now - proven_at > _PATIENCE:
                raise NothingLasts("no lasting channel there is known to get the messages")
            with anyio.move_on_after(_INTERVAL):
                await self._leaving.wait()

    def _is_proof(self, node: TopicNode, known: int) -> bool:
        """Return whether a lasting channel got all messages of the ephemeral one, judging by their counts.

        If so, forget the first ``known`` messages, which need not be published again.
        """
        own = node.channel(self._channel)
        if own is None or all(count < own.message_count for count in node.lasting_channels.values()):
            return False
        del self._unproven[:known]
        self._proof = node
        return True

    async def _leave(self) -> None:
        """Receive the messages that are left, unless another channel has them, and close the connection.

        :raises NSQError: if nsqd does not answer, or the connection is lost
        """
        while not (self._may_drain or self._connection.ended):
            known = len(self._unproven)
            node = await self._node.again(self._upstream, _PATIENCE)
            if node is None or self._is_proof(node, known):
                break
            held = sum(len(each.body) for each in self._unproven)
            own = node.channel(self._channel)
            if own is None or held > _MOST_HELD:
                break
            if node.topic.paused:
                if not (own.depth or own.in_flight_count):
                    break
            elif self._proof is None:
                # Not at once: a lasting channel may get the message a moment later than the ephemeral one.
                self._has_paused = True
                await self._ask_nsqd(partial(Nsqd.pause_topic, topic=self._topic))
            self._proof = None
            await anyio.sleep(_SOON)
        await self._connection.close()

    async def _give_back(self) -> None:
        """Publish the messages that no other channel has, once the ephemeral channel is gone.

        Before that, the ephemeral channel would get them again.
        """
        must_publish = False
        reason = "it has not answered"
        with anyio.move_on_after(_LEAVING):
            while self._unproven or self._has_paused:
                try:
                    node = await self._node.again(self._upstream, _PATIENCE)
                    if node is None:
                        return  # the messages were deleted with their topic
                    if self._has_lasted(node) and not must_publish:
                        self._unproven.clear()  # other channels have them
                    if node.channel(self._channel) is None:
                        must_publish = True
                        await self._publish()
                        if self._has_paused:
                            await self._ask_nsqd(partial(Nsqd.unpause_topic, topic=self._topic))
                            self._has_paused = False
                except NSQError as error:
                    reason = str(error)
                await anyio.sleep(_SOON)
        if self._unproven:
            _log.error(
                "%d messages of topic %s were taken from nsqd %s, and are lost: %s",
                *(len(self._unproven), self._topic, self._node.name, reason),
            )
        if self._has_paused:
            _log.error(
                "topic %s may still be paused on nsqd %s, and has to be unpaused there: %s",
                *(self._topic, self._node.name, reason),
            )

    def _has_lasted(self, node: TopicNode) -> bool:
        """Return whether a lasting channel has existed since the last proof."""
        before = self._proof
        if before is None:
            return False
        # A channel that was created again has fewer messages; so has every channel after a restart of nsqd.
        is_restarted = node.topic.message_count < before.topic.message_count
        then = before.lasting_channels
        return any(
            name in then and (is_restarted or count >= then[name])
            for name, count in node.lasting_channels.items()
        )

    async def _publish(self) -> None:
        while self._unproven:
            size = count = 0
            while count < len(self._unproven) and size < _AT_ONCE:
                size += len(self._unproven[count].body)
                count += 1
            bodies = [each.body for each in self._unproven[:count]]
            await self._ask_nsqd(partial(Nsqd.publish_many, topic=self._topic, bodies=bodies))
            del self._unproven[:count]

    async def _ask_nsqd(self, request: Callable[[Nsqd], Awaitable[None]]) -> None:
        async with self._upstream.used("action") as servers:
            answers = await servers.ask_nsqds([self._node.url], request)
        for error in answers.failures.values():
            raise error


def _address(node: TopicNode) -> NsqdAddress:
    (address,) = nsqd_addresses(node.address)
    return address
