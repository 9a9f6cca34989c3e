"""``python -m tests.endings.exits LOOP BLOCK HANDLER``: a program that its handlers or signals end."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Awaitable, Callable
from functools import partial

import anyio
from anyio import to_thread

import nsq_anyio as nsq
from nsq_anyio import events
from nsq_anyio.consumer import Handler

from .blocks import PATIENT
from .loops import LOOPS, Loop
from .peers import Peer, Temper, peers

STATUS = 7
_AT_ONCE = 4
_SECONDS = 0.1
"""How long a handler works: several end at about the same time."""


def _plain(_message: nsq.Message) -> None:
    time.sleep(_SECONDS)
    sys.exit(STATUS)


def _patient(_message: nsq.Message) -> None:
    time.sleep(_SECONDS)


async def _asleep(_message: nsq.Message) -> None:
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await anyio.sleep_forever()


async def _blocking(_message: nsq.Message) -> None:
    """Block the event loop."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    time.sleep(1000)  # noqa: ASYNC251 - that is the point


def _interrupted(_message: nsq.Message) -> None:
    time.sleep(_SECONDS)
    raise KeyboardInterrupt


async def _in_a_thread(_message: nsq.Message) -> None:
    await to_thread.run_sync(time.sleep, _SECONDS)
    sys.exit(STATUS)


HANDLERS: dict[str, Handler] = {
    "plain": _plain,
    "patient": _patient,
    "asleep": _asleep,
    "blocking": _blocking,
    "interrupted": _interrupted,
    "in a thread": _in_a_thread,
}


async def _run(handler: Handler, peer: Peer) -> None:
    async with nsq.consume("t", "c", nsqd=peer.address, options=PATIENT, max_in_flight=_AT_ONCE) as consumer:
        await consumer.run(handler, concurrency=_AT_ONCE)


async def _run_in_a_task(handler: Handler, peer: Peer) -> None:
    async with (
        nsq.consume("t", "c", nsqd=peer.address, options=PATIENT, max_in_flight=_AT_ONCE) as consumer,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(lambda: consumer.run(handler, concurrency=_AT_ONCE))


async def _serve(handler: Handler, peer: Peer) -> None:
    await nsq.serve(handler, ["t", "u"], "c", nsqd=peer.address, options=PATIENT, concurrency=_AT_ONCE)


async def _serve_twice(handler: Handler, peer: Peer) -> None:
    async with anyio.create_task_group() as tasks:
        for topic in ("t", "u"):
            tasks.start_soon(partial(nsq.serve, handler, topic, "c", nsqd=peer.address, options=PATIENT))
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


async def _exit_in_the_hook(handler: Handler, peer: Peer) -> None:
    """Exit in a task of the consumer, when nsqd vanishes. ``handler`` has needed a thread before."""

    def hook(event: events.Event) -> None:
        if isinstance(event, events.Disconnected):
            sys.exit(STATUS)

    async with nsq.consume("t", "c", nsqd=peer.address, options=PATIENT, on_event=hook) as consumer:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(consumer.run, handler)
            await anyio.sleep(3 * _SECONDS)
            peer.turn()


BLOCKS: dict[str, Callable[[Handler, Peer], Awaitable[None]]] = {
    "run": _run,
    "run in a task": _run_in_a_task,
    "serve": _serve,
    "serve twice": _serve_twice,
    "hook": _exit_in_the_hook,
}


def _main(loop: Loop, block: str, handler: str) -> None:
    temper = Temper.GONE if block == "hook" else Temper.ANSWERING
    in_flight: list[set[bytes]] = []
    try:
        # An end that is cut short sends the last commands and does not wait. At the end of this block the
        # peer has read them.
        with peers() as the_peers, the_peers.peer(temper) as peer:
            in_flight = peer.in_flight
            loop.run(lambda: BLOCKS[block](HANDLERS[handler], peer))
    finally:
        if temper is Temper.ANSWERING and any(in_flight):
            sys.stderr.write(f"left in flight: {in_flight}\n")


if __name__ == "__main__":
    (chosen,) = (loop.values[0] for loop in LOOPS if loop.id == sys.argv[1])
    assert isinstance(chosen, Loop)
    _main(chosen, *sys.argv[2:])
