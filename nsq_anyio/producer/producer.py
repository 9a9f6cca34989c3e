"""What users hold inside ``async with nsq.produce(...)``."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import asynccontextmanager

import anyio

from ..address import Address
from ..connection import Request
from ..connection.background import Background
from ..errors import Closed, ConnectionFailed, NotSent, OutcomeUnknown, PublishRejected, ServerError
from ..events import Emitter, EventHook
from ..names import check_topic
from ..options import ConnectionOptions, ProducerOptions
from ..protocol import commands
from ..protocol.session import Command
from .bodies import Body, check_bodies, check_body, check_defer
from .pool import Pool

__all__ = ["Producer"]


class Producer:
    """Publishes to one or several nsqds, in turn. Made by `produce`; any number of tasks may share it.

    A publish that is cancelled may still be executed; the order of answers is kept all the same.
    """

    def __init__(
        self,
        nsqds: Sequence[Address],
        *,
        on_event: EventHook | None,
        options: ProducerOptions,
        connection: ConnectionOptions,
    ) -> None:
        self._options = options
        self._background = Background(self._run, self._shut_down)
        self._pool = Pool(
            nsqds,
            options=options,
            connection_options=connection,
            emit=Emitter("nsq_anyio.producer", on_event),
            fail=self._background.fail,
        )
        self._closed = False

    def __repr__(self) -> str:
        links = ", ".join(
            f"{link.address} {'up' if link.connection else 'down'}" for link in self._pool.links
        )
        return f"<Producer {'closed' if self._closed else links}>"

    @property
    def connections(self) -> tuple[str, ...]:
        """The addresses of the nsqds that this producer is connected to now."""
        return tuple(str(link.address) for link in self._pool.links if link.connection)

    async def publish(self, topic: str, body: Body, *, defer: float | None = None) -> None:
        """Publish one message, and return once nsqd has taken it.

        Waits for a connection, and for room when too much is outstanding. A message that was certainly not
        executed is sent again, as long as ``publish_timeout`` allows.

        :param topic: 1 to 64 characters of ``[.a-zA-Z0-9_-]``, optionally ending in ``#ephemeral``
        :param body: 1 to ``max_msg_size`` bytes
        :param defer: seconds until nsqd delivers it, 0 to ``max_defer``; None for at once
        :raises InvalidName: for a topic that nsqd would refuse
        :raises InvalidBody: for an empty or oversized body
        :raises InvalidOption: for a defer out of range
        :raises PublishRejected: if nsqd refuses the message
        :raises NotSent: if no connection came about in time: nothing was published
        :raises OutcomeUnknown: if the connection was lost, or the time was over, before nsqd answered
        :raises Closed: outside the block
        """
        check_topic(topic)
        data = check_body(body, self._options)
        if defer is None:
            await self._send(Command.PUB, commands.pub(topic, data))
        else:
            await self._send(Command.DPUB, commands.dpub(topic, check_defer(defer, self._options), data))

    async def publish_many(self, topic: str, bodies: Iterable[Body]) -> None:
        """Publish several messages, all or none (MPUB), and return once nsqd has taken them.

        :param bodies: 1 or more, each 1 to ``max_msg_size`` bytes, ``max_body_size`` in sum with 4 bytes each
        :raises NSQError: as `publish` does
        """
        check_topic(topic)
        await self._send(Command.MPUB, commands.mpub(topic, check_bodies(bodies, self._options)))

    async def _send(self, command: Command, data: bytes) -> None:
        if self._closed:
            raise Closed("the producer's block has ended: publish inside `async with nsq.produce(...)`")
        request: Request | None = None
        timeout = self._options.publish_timeout
        try:
            with anyio.fail_after(timeout):
                while True:
                    request = None
                    connection = await self._pool.connection(len(data))
                    request = connection.request(command, data, len(data))
                    try:
                        await request.wait()
                    except ConnectionFailed as error:
                        if request.maybe_executed:
                            raise OutcomeUnknown(f"the answer was lost: {error}") from error
                        continue  # certainly not executed
                    return
        except ServerError as error:
            raise PublishRejected(error.code, error.detail) from error
        except TimeoutError:
            if request is None:
                raise NotSent(f"no room on a connection within publish_timeout={timeout} s") from None
            raise OutcomeUnknown(f"no answer within publish_timeout={timeout} s") from None

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Producer]:
        """Connect, and stay connected, around the user's block."""
        async with self._background.around_block():
            yield self

    async def _run(self) -> None:
        await self._pool.run()

    async def _shut_down(self, cancelled: bool) -> None:
        self._closed = True
        options = self._options
        with anyio.move_on_after(options.cancelled_drain_timeout if cancelled else options.drain_timeout):
            await self._pool.close()
