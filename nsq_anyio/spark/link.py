"""Keeps one connection of a task to its nsqd, and ends it so that nsqd has handled all answers."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable

import anyio

from ..address import NsqdAddress
from ..connection import Experience, open_connection
from ..connection.flow import LoopWatch
from ..errors import ConnectionFailed, TLSFailed
from ..options import ConnectionOptions
from ..policy.delays import ReconnectDelay
from ..protocol.run_decoder import RunDecoder
from .inflow import Inflow

_log = logging.getLogger("nsq_anyio.spark")


class Link:
    """Connects to one nsqd and subscribes, and does so again when the connection is lost.

    :param options: as `prepared` returns them
    :param arrived: called when messages have arrived
    :param changed: called when a connection begins or ends
    :ivar inflow: the messages of the current connection; None while there is none
    :ivar failure: why the last attempt to connect has failed, or the last connection was lost
    """

    def __init__(
        self,
        address: NsqdAddress,
        topic: str,
        channel: str,
        *,
        options: ConnectionOptions,
        reconnect: ReconnectDelay,
        watch: LoopWatch,
        arrived: Callable[[], None],
        changed: Callable[[], None],
    ) -> None:
        self.inflow: Inflow | None = None
        self.failure: ConnectionFailed | None = None
        self._address = address
        self._topic = topic
        self._channel = channel
        self._options = options
        self._reconnect = reconnect
        self._rng = random.Random()
        self._watch = watch
        self._arrived = arrived
        self._changed = changed
        self._earlier_refused = 0
        self._experience = Experience()
        self._released = anyio.Event()

    @property
    def refused(self) -> int:
        """The answers that nsqd has refused on all connections."""
        return self._earlier_refused + (0 if self.inflow is None else self.inflow.refused)

    async def run(self) -> None:
        """Stay connected until `release`.

        :raises InvalidOption: if an option cannot be used with this nsqd
        :raises PermanentRefusal: if nsqd refuses the connection permanently
        :raises TLSFailed: if nsqd declines TLS, or one side does not trust the other
        """
        while True:
            lasted = await self._serve()
            if self._released.is_set():
                return
            await anyio.sleep(self._reconnect.after(lasted, self._rng))

    async def drain(self) -> None:
        """Hand back what is not answered, and wait until nsqd has handled all answers.

        :raises ConnectionFailed: if the connection ends before nsqd has confirmed that
        """
        if self.inflow is not None:
            await self.inflow.drain()

    def release(self) -> None:
        """Let `run` end, with the connection."""
        self._released.set()

    async def _serve(self) -> float:
        """Connect, and stay connected; return how many seconds the subscription has lasted."""
        inflow = Inflow(str(self._address), arrived=self._arrived, watch=self._watch)
        subscribed_at: float | None = None
        try:
            async with open_connection(
                self._address,
                self._options,
                inflow,
                experience=self._experience,
                make_decoder=RunDecoder,
            ) as connection:
                inflow.attach(connection)
                await connection.subscribe(self._topic, self._channel)
                subscribed_at = anyio.current_time()
                self.inflow = inflow
                self._changed()
                await self._released.wait()
        except TLSFailed:
            raise
        except ConnectionFailed as error:
            self.failure = error
            _log.warning("%s", error)
        finally:
            inflow.detach()
            self.inflow = None
            self._earlier_refused += inflow.refused
            self._changed()
        return 0.0 if subscribed_at is None else anyio.current_time() - subscribed_at
