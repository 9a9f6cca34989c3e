"""``python -m tests.interop.descriptors LOOP WHAT [ADDRESS...]``: a program that runs out of descriptors.

It says on its standard output what happens, and reads a line where it has to wait for the test.
"""

from __future__ import annotations

import logging
import os
import resource
import socket
import sys
from collections.abc import Awaitable, Callable

import anyio

import nsq_anyio as nsq

__all__: list[str] = []

LIMIT = 256
"""Descriptors that the process may have."""

EXHAUSTED_FOR = 1.5
MOST_CPU = 0.5
"""Seconds; one that spins needs as many as it is exhausted for."""

CONSUMER = nsq.ConsumerOptions(reconnect_delay=0.05, max_reconnect_delay=0.1, lookupd_poll_interval=1)
PRODUCER = nsq.ProducerOptions(reconnect_delay=0.05, max_reconnect_delay=0.1, connect_timeout=0.5)


def say(*words: object) -> None:
    print(*words, flush=True)  # noqa: T201 - what the test reads


async def told() -> None:
    await anyio.to_thread.run_sync(sys.stdin.readline)


def use_up() -> list[int]:
    """Open files until there are no descriptors left."""
    held: list[int] = []
    while True:
        try:
            held.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            return held


def give_back(held: list[int]) -> None:
    while held:
        os.close(held.pop())


async def check_idle() -> None:
    """Stay without descriptors for a while, and do next to nothing meanwhile."""
    before = sum(os.times()[:2])
    await anyio.sleep(EXHAUSTED_FOR)
    used = sum(os.times()[:2]) - before
    say("idle" if used < MOST_CPU else f"busy: {used:.1f} s of {EXHAUSTED_FOR} s")


async def client(nsqd: str, nsqlookupd: str) -> None:
    """Connections are lost while there is no descriptor for new ones."""
    failures: set[str] = set()
    held: list[int] = []

    def on_event(event: nsq.events.Event) -> None:
        if isinstance(event, nsq.events.ConnectFailed):
            failures.add(f"{type(event.error).__name__}: {'Too many open files' in str(event)}")
        elif isinstance(event, nsq.events.Disconnected):
            held.extend(use_up())  # or what it gave back would do for the next attempt

    async with (
        nsq.consume("t", "c", nsqd=nsqd, options=CONSUMER, on_event=on_event) as consumer,
        nsq.consume("t", "d", nsqlookupd=nsqlookupd, options=CONSUMER) as discovering,
        nsq.produce(nsqd, options=PRODUCER, on_event=on_event) as producer,
    ):
        while not producer.connections:  # noqa: ASYNC110 - nothing tells of it
            await anyio.sleep(0.01)
        await producer.publish("t", b"before")
        await discovering.ready()
        (await anext(consumer)).finish()
        held.extend(use_up())
        say("exhausted")
        await told()  # the connections are cut
        while producer.connections or consumer.connections:  # noqa: ASYNC110 - nothing tells of it
            await anyio.sleep(0.01)
        try:
            await producer.publish("t", b"meanwhile")
        except nsq.NotSent as error:
            say("NotSent", "Too many open files" in str(error))
        await check_idle()
        say(*sorted(failures))
        give_back(held)
        with anyio.fail_after(20):
            await producer.publish("t", b"after")
            message = await anext(consumer)
            message.finish()
            say(message.body.decode())
            while (message := await anext(discovering)).body != b"after":
                message.finish()
            say(message.body.decode())


async def servers() -> None:
    """Peers come while there is no descriptor to accept them with."""
    async with nsq.embedded.nsqd() as nsqd, nsq.embedded.nsqlookupd() as nsqlookupd:
        addresses = [nsqd.tcp_address, nsqd.http_url, nsqlookupd.tcp_address, nsqlookupd.http_url]
        peers = [socket.socket() for _ in addresses]
        held = use_up()
        for peer, address in zip(peers, addresses, strict=True):
            host, _, port = address.removeprefix("http://").rpartition(":")
            peer.connect((host, int(port)))  # to the queue of the listener
        try:
            async with nsq.embedded.nsqd():
                pass
        except nsq.embedded.ListenFailed as error:
            say(error.reason, "ulimit" in str(error))
        await check_idle()
        give_back(held)
        for peer in peers:
            peer.close()
        with anyio.fail_after(20):
            async with nsq.produce(nsqd.tcp_address) as producer:
                await producer.publish("t", b"x")
            async with nsq.http.Nsqd(nsqd.http_url) as http:
                await http.ping()
            async with nsq.http.Nsqlookupd(nsqlookupd.http_url) as lookup:
                await lookup.ping()
        say("serving")


async def service(nsqd: str) -> None:
    """A service with a health endpoint."""

    class Address(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            say(record.getMessage().rpartition(" ")[2])

    logging.getLogger("nsq_anyio.service").addHandler(Address())
    logging.getLogger("nsq_anyio.service").setLevel(logging.INFO)

    async def handle(_: nsq.Message) -> None:
        pass

    await nsq.serve(handle, "t", "c", nsqd=nsqd, http_address="127.0.0.1:0")


PROGRAMS: dict[str, Callable[..., Awaitable[None]]] = {
    "client": client,
    "servers": servers,
    "service": service,
}


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT))
    loop, what, *arguments = sys.argv[1:]
    # What is imported when it is first used needs a descriptor, too.
    _ = nsq.http.Nsqd, nsq.http.Nsqlookupd, nsq.NotSent, nsq.embedded.ListenFailed
    anyio.run(
        PROGRAMS[what],
        *arguments,
        backend="trio" if loop == "trio" else "asyncio",
        backend_options={"use_uvloop": True} if loop == "uvloop" else {},
    )
