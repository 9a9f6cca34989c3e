"""One client of the embedded nsqd: what its commands do."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeAlias

import anyio

from ..errors import ServerError
from ..protocol.client_commands import (
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
from ..protocol.command_decoder import CommandDecoder
from ..protocol.frames import FRAME_RESPONSE, HEARTBEAT, encode_frame
from ..protocol.server_session import ServerState, encode_error
from ..serving.listener import Remote
from .access import Access, AuthorizationExpired
from .broker import Broker
from .channel import Channel
from .layers import Layers
from .negotiation import Negotiated, Upgrade, identify_reply, negotiate
from .output import Output
from .subscription import Subscription
from .timers import CallbackTimer

__all__ = ["NsqdClient", "Upgrader"]

Upgrader: TypeAlias = Callable[[Upgrade, bytes], Awaitable[Layers]]
"""Changes the stream to what was negotiated; the bytes are what came behind the IDENTIFY."""

_OK = encode_frame(FRAME_RESPONSE, b"OK")
_CLOSE_WAIT = encode_frame(FRAME_RESPONSE, b"CLOSE_WAIT")
_HEARTBEAT = encode_frame(FRAME_RESPONSE, HEARTBEAT)
_MILLISECONDS = 1000


class NsqdClient:
    """Executes the commands of one client; its owner moves the bytes.

    The commands of a received chunk are executed in one go. Those that have to wait, which are AUTH and an
    IDENTIFY that changes the stream, hold up what this client sent behind them, and nobody else.

    :param access: what the client may do; None when there is no AUTH
    :param disconnect: cuts the connection at once
    :ivar layers: what was negotiated for the stream; None before
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
        self._broker = broker
        self._disconnect = disconnect
        self._upgrade = upgrade
        self._decoder = CommandDecoder(broker.options.limits, tls_required=bool(broker.options.requires_tls))
        self._wait: Callable[[], Awaitable[None]] | None = None
        self._held_up: list[ClientCommand] = []
        self._heartbeat = CallbackTimer(self._send_heartbeat)
        self._read_deadline = CallbackTimer(self._check_read_deadline)
        self._last_command: float | None = None
        self._now = 0.0
        # One lookup by type for each command; Any, as each function takes its own type alone.
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
        """Where the connection stands."""
        return self._decoder.session.state

    async def receive(self, data: bytes) -> bool:
        """Execute what ``data`` completes; False when the connection has to end."""
        commands = self._decoder.feed(data)
        while self._execute(commands):
            if self._wait is not None:
                try:
                    await self._pause(self._wait)
                except ServerError as error:
                    self.output.add(encode_error(error))
                    return False
                commands, self._held_up = self._held_up, []
            elif not (commands := self._decoder.resume()):
                return True
        return False

    async def _pause(self, wait: Callable[[], Awaitable[None]]) -> None:
        self._wait = None
        # Nothing is read meanwhile, so silence says nothing of the client.
        self._broker.scheduler.cancel_timer(self._read_deadline)
        await wait()
        self._last_command = anyio.current_time()
        if self.negotiated.heartbeat_interval:
            self._check_read_deadline(self._last_command)

    def receive_end(self) -> None:
        """Execute what is left when the client has sent its last byte."""
        self._execute(self._decoder.end())

    def leave(self) -> None:
        """The connection has ended, or is about to."""
        self._broker.scheduler.cancel_timer(self._heartbeat)
        self._broker.scheduler.cancel_timer(self._read_deadline)
        if self.channel is not None and self.subscription is not None:
            self.channel.leave(self.subscription)

    def sent(self) -> None:
        """Note that output was sent, which can make room for messages."""
        if self.channel is not None and self.subscription is not None:
            self.channel.offer(self.subscription)

    @property
    def write_timeout(self) -> float | None:
        """Seconds that the client may take to read one piece of output; None without heartbeats."""
        return self.negotiated.heartbeat_interval or None

    def _execute(self, commands: list[ClientCommand]) -> bool:
        now = self._now = anyio.current_time()
        if self._last_command is None and self._decoder.started:
            self._last_command = now
            self._set_timers()
        if commands:
            self._last_command = now
        iterator = iter(commands)
        for command in iterator:
            if isinstance(command, LineTooLong):
                return False
            try:
                self._executors[type(command)](command)
            except AuthorizationExpired:
                self._held_up = [command, *iterator]
                self._wait = self._renew
            except ServerError as error:
                self.output.add(encode_error(error))
                if error.fatal:
                    return False
        return True

    # Heartbeats.

    def _set_timers(self) -> None:
        scheduler = self._broker.scheduler
        interval = self.negotiated.heartbeat_interval
        if interval:
            scheduler.set_timer(self._heartbeat, self._now + interval)
            scheduler.set_timer(self._read_deadline, self._now + 2 * interval)
        else:
            scheduler.cancel_timer(self._heartbeat)
            scheduler.cancel_timer(self._read_deadline)

    def _send_heartbeat(self, now: float) -> None:
        self.output.add(_HEARTBEAT)
        self._broker.scheduler.set_timer(self._heartbeat, now + self.negotiated.heartbeat_interval)

    def _check_read_deadline(self, now: float) -> None:
        # Set anew only here: for each command would cost too much.
        deadline = (self._last_command or 0.0) + 2 * self.negotiated.heartbeat_interval
        if now >= deadline:
            self._disconnect()
        else:
            self._broker.scheduler.set_timer(self._read_deadline, deadline)

    # The connection.

    def _identify(self, command: Identify) -> None:
        self.negotiated = negotiate(command.payload, self.negotiated, self._broker.options)
        self._set_timers()
        self.output.add(encode_frame(FRAME_RESPONSE, identify_reply(self.negotiated, self._broker.options)))
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
        self.output.add(encode_frame(FRAME_RESPONSE, await access.authenticate(secret)))

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
        self._publish(command.topic, [command.body])

    def _mpub_start(self, command: MpubStart) -> None:
        if self.access is not None:
            self.access.check("MPUB", command.topic)
        # nsqd makes the topic even if it refuses the body.
        self._broker.get_topic(command.topic)

    def _mpub(self, command: Mpub) -> None:
        self._publish(command.topic, command.bodies)

    def _dpub(self, command: Dpub) -> None:
        if self.access is not None:
            self.access.check("DPUB", command.topic)
        self._publish(command.topic, [command.body], command.defer_ms / _MILLISECONDS)

    def _publish(self, topic: str, bodies: list[bytes], defer: float = 0.0) -> None:
        self._broker.get_topic(topic).publish(bodies, defer)
        self.publish_counts[topic] = self.publish_counts.get(topic, 0) + len(bodies)
        self.output.add(_OK)

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
        self.channel = channel
        self.subscription = subscription
        self.output.add(_OK)

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
        self.output.add(_CLOSE_WAIT)

    def _fin(self, command: Fin) -> None:
        channel, subscription = self._joined
        channel.finish(subscription, command.id)

    def _req(self, command: Req) -> None:
        channel, subscription = self._joined
        delay = min(command.delay_ms / _MILLISECONDS, self._broker.options.max_req_timeout)
        channel.requeue(subscription, command.id, self._now + delay if delay > 0 else None)

    def _touch(self, command: Touch) -> None:
        channel, subscription = self._joined
        channel.touch(subscription, command.id, self._now)
