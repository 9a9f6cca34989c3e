"""One client of the embedded nsqd, and the execution of its commands."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias, TypeVar

import anyio

from ...errors import ServerError
from ...protocol.client_commands import (
    Auth,
    ClientCommand,
    Cls,
    Dpub,
    Fin,
    Identify,
    Invalid,
    LineTooLong,
    Mpub,
    MpubStart,
    Nop,
    Pub,
    Rdy,
    Req,
    Sub,
    Touch,
)
from ...protocol.command_decoder import CommandDecoder
from ...protocol.frames import FRAME_RESPONSE, HEARTBEAT, encode_frame
from ...protocol.server_session import ServerState, encode_error
from ...serving.listener import Remote
from .auth import Access, AuthorizationExpired
from .broker import Broker
from .channel import Channel, Subscription
from .heartbeats import Heartbeats
from .negotiation import Layers, Negotiated, Upgrade, identify_reply, negotiate
from .output import Output, Responses

_T = TypeVar("_T")

Upgrader: TypeAlias = Callable[[Upgrade, bytes], Awaitable[Layers]]
"""Adds the negotiated layers to the stream; the bytes were received after the IDENTIFY."""

_OK = encode_frame(FRAME_RESPONSE, b"OK")
_CLOSE_WAIT = encode_frame(FRAME_RESPONSE, b"CLOSE_WAIT")
_HEARTBEAT = encode_frame(FRAME_RESPONSE, HEARTBEAT)


class NsqdClient:
    """Executes the commands of one client. The owner, `_Connection`, reads and writes the bytes.

    The commands of a received chunk are executed together. AUTH, and an IDENTIFY that changes the stream,
    take time: later commands of this client wait for them, other clients do not.

    :param access: the client's authorizations; None if clients need no AUTH
    :param disconnect: cuts the connection at once
    :ivar layers: the layers of the stream; None before any was negotiated
    """

    def __init__(
        self,
        broker: Broker,
        remote: Remote,
        access: Access | None,
        disconnect: Callable[[], None],
        upgrade: Upgrader,
    ) -> None:
        self.remote_address: str = str(remote)
        self.connected_at: float = time.time()
        self.negotiated: Negotiated = Negotiated.before_identify(remote.host, broker.options)
        self.access: Access | None = access
        self.layers: Layers | None = None
        self.publish_counts: dict[str, int] = {}
        self.channel: Channel | None = None
        self.subscription: Subscription | None = None
        self.output: Output = Output()
        self._responses = Responses(self.output)
        self._broker = broker
        self._disconnect = disconnect
        self._upgrade = upgrade
        self._decoder = CommandDecoder(broker.options.limits, tls_required=bool(broker.options.requires_tls))
        self._wait: Callable[[], Awaitable[None]] | None = None
        self._postponed: list[ClientCommand] = []
        self._heartbeats = Heartbeats(
            broker.scheduler, send=partial(self.output.add, _HEARTBEAT), disconnect=disconnect
        )
        self._started = False
        self._now = 0.0
        # One lookup by type for each command. Any, since each function accepts only its own type.
        self._executors: dict[type[Any], Callable[[Any], None]] = {
            Fin: self._fin,
            Rdy: self._rdy,
            Req: self._req,
            Touch: self._touch,
            Pub: self._pub,
            MpubStart: self._mpub_start,
            Mpub: self._mpub,
            Dpub: self._dpub,
            Nop: self._nop,
            Sub: self._sub,
            Cls: self._cls,
            Identify: self._identify,
            Auth: self._auth,
            Invalid: self._invalid,
        }

    @property
    def state(self) -> ServerState:
        """The state of the connection in the protocol."""
        return self._decoder.session.state

    async def receive(self, data: bytes) -> bool:
        """Execute the commands that ``data`` completes; return False if the connection has to end."""
        commands = self._decoder.feed(data)
        while True:
            goes_on = self._execute(commands)
            if (self._responses.are_owed and not await self._await(self._responses.settle)) or not goes_on:
                return False
            if self._wait is not None:
                wait, self._wait = self._wait, None
                try:
                    await self._await(wait)
                except ServerError as error:
                    self._responses.add(encode_error(error))
                    return False
                commands, self._postponed = self._postponed, []
            elif not (commands := self._decoder.resume()):
                return True

    async def _await(self, wait: Callable[[], Awaitable[_T]]) -> _T:
        self._heartbeats.allow_silence()
        result = await wait()
        self._heartbeats.expect_commands(anyio.current_time())
        return result

    async def receive_end(self) -> None:
        """Execute the remaining commands after the client has sent its last byte."""
        self._execute(self._decoder.end())
        await self._responses.settle()

    def leave(self) -> None:
        """Leave the channel: the connection has ended, or is about to."""
        self._heartbeats.stop()
        if self.channel is not None and self.subscription is not None:
            self.channel.leave(self.subscription)

    def sent(self) -> None:
        """Note that output was sent, so that the client may have room for messages again."""
        if self.channel is not None and self.subscription is not None:
            self.channel.offer(self.subscription)

    @property
    def write_timeout(self) -> float | None:
        """The seconds that the client has to read one piece of output; None without heartbeats."""
        return self.negotiated.heartbeat_interval or None

    def _execute(self, commands: list[ClientCommand]) -> bool:
        now = self._now = anyio.current_time()
        if not self._started and self._decoder.started:
            self._started = True
            self._heartbeats.start(self.negotiated.heartbeat_interval, now)
        if commands:
            self._heartbeats.last_command = now
        iterator = iter(commands)
        for command in iterator:
            if isinstance(command, LineTooLong):
                return False
            try:
                self._executors[type(command)](command)
            except AuthorizationExpired:
                self._postponed = [command, *iterator]
                self._wait = self._renew
            except ServerError as error:
                self._responses.add(encode_error(error))
                if error.fatal:
                    return False
        return True

    # The connection.

    def _identify(self, command: Identify) -> None:
        self.negotiated = negotiate(command.payload, self.negotiated, self._broker.options)
        self._heartbeats.start(self.negotiated.heartbeat_interval, self._now)
        self._responses.add(
            encode_frame(FRAME_RESPONSE, identify_reply(self.negotiated, self._broker.options))
        )
        if self.negotiated.upgrade:
            self._wait = self._change_stream

    async def _change_stream(self) -> None:
        self.layers = await self._upgrade(self.negotiated.upgrade, self._decoder.take_rest())
        if self.layers.tls is not None:
            self._decoder.session.tls_required = False

    def _auth(self, command: Auth) -> None:
        if self.access is None:
            raise ServerError("E_AUTH_DISABLED", "AUTH disabled")
        if self.access.state is not None:
            raise ServerError("E_INVALID", "AUTH already set")
        self._wait = partial(self._authenticate, self.access, command.secret)

    async def _authenticate(self, access: Access, secret: bytes) -> None:
        self._responses.add(encode_frame(FRAME_RESPONSE, await access.authenticate(secret)))

    async def _renew(self) -> None:
        if self.access is not None:
            await self.access.renew()

    def _nop(self, _command: Nop) -> None:
        pass

    def _invalid(self, command: Invalid) -> None:
        raise command.error

    # Publishing.

    def _pub(self, command: Pub) -> None:
        if self.access is not None:
            self.access.check("PUB", command.topic)
        self._publish("PUB", command.topic, [command.body])

    def _mpub_start(self, command: MpubStart) -> None:
        if self.access is not None:
            self.access.check("MPUB", command.topic)
        # nsqd creates the topic even if it refuses the body.
        self._broker.get_topic(command.topic)

    def _mpub(self, command: Mpub) -> None:
        self._publish("MPUB", command.topic, command.bodies)

    def _dpub(self, command: Dpub) -> None:
        if self.access is not None:
            self.access.check("DPUB", command.topic)
        self._publish("DPUB", command.topic, [command.body], command.defer_ms / 1000)

    def _publish(self, command: str, topic: str, bodies: list[bytes], defer: float = 0.0) -> None:
        receipt = self._broker.get_topic(topic).publish(bodies, defer)
        self.publish_counts[topic] = self.publish_counts.get(topic, 0) + len(bodies)
        if receipt is None:
            self._responses.add(_OK)
        else:
            self._responses.add_when_stored(_OK, receipt, command)

    # Consuming.

    def _sub(self, command: Sub) -> None:
        if not self.negotiated.heartbeat_interval:
            raise ServerError("E_INVALID", "cannot SUB with heartbeats disabled")
        if self.access is not None:
            self.access.check("SUB", command.topic, command.channel)
        subscription = Subscription(
            self.output,
            self._disconnect,
            msg_timeout=self.negotiated.msg_timeout,
            sample_rate=self.negotiated.sample_rate,
        )
        channel = self._broker.get_topic(command.topic).get_channel(command.channel)
        channel.join(subscription)
        self.channel, self.subscription = channel, subscription
        self._responses.add(_OK)

    @property
    def _joined(self) -> tuple[Channel, Subscription]:
        if self.channel is None or self.subscription is None:
            raise AssertionError("the decoder let a command pass that needs a SUB before it")
        return self.channel, self.subscription

    def _rdy(self, command: Rdy) -> None:
        channel, subscription = self._joined
        subscription.rdy = command.count
        channel.offer(subscription)

    def _cls(self, _command: Cls) -> None:
        _, subscription = self._joined
        subscription.rdy = 0
        self._responses.add(_CLOSE_WAIT)

    def _fin(self, command: Fin) -> None:
        channel, subscription = self._joined
        for error in channel.finish(subscription, command.ids):
            self._responses.add(encode_error(error))

    def _req(self, command: Req) -> None:
        channel, subscription = self._joined
        delay = min(command.delay_ms / 1000, self._broker.options.max_req_timeout)
        channel.requeue(subscription, command.id, self._now + delay if delay > 0 else None)

    def _touch(self, command: Touch) -> None:
        channel, subscription = self._joined
        channel.touch(subscription, command.id, self._now)
