"""A ledger of copies: which messages were handled, and how often, while nsqds lose their disks.

``python -m tests.deduplication.ledger --store redis --rounds 30 --messages 100000``

Three real nsqds get two copies of each message, and four processes consume them. In each round, one nsqd is
killed at a random moment while messages are published, its data path is deleted, and it starts again with
nothing. A round ends once each of its messages was handled; until then, no other nsqd is killed. At the end
no message may be missing, and none may be handled twice.
"""

from __future__ import annotations

import argparse
import logging
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import anyio
import anyio.to_thread

import nsq_anyio as nsq
from nsq_anyio.deduplication import RedisStore, SQLiteStore, Store

from ..real_servers import program
from ..redis_server import redis_server

_TOPIC, _CHANNEL = "ledger", "all"
_PUBLISHERS = 50
_CONSUMERS = 4
_SECONDS_OF_A_ROUND = 120.0


class Figures(NamedTuple):
    """What has happened."""

    published: int
    lost: int
    handled_twice: int
    repeated_publishes: int
    killed: int
    seconds: float


class Nsqd:
    """A real nsqd that keeps its address when it starts again."""

    def __init__(self, directory: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as tcp, socket.create_server(("127.0.0.1", 0)) as http:
            self.tcp_address: str = f"127.0.0.1:{tcp.getsockname()[1]}"
            self.http_address: str = f"127.0.0.1:{http.getsockname()[1]}"
        self._directory = directory
        self._process: subprocess.Popen[bytes]

    def start(self) -> None:
        self._directory.mkdir()
        addresses = [f"--tcp-address={self.tcp_address}", f"--http-address={self.http_address}"]
        self._process = subprocess.Popen(
            [program("nsqd"), *addresses, f"--data-path={self._directory}", "--log-level=error"]
        )

    def lose_everything(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        shutil.rmtree(self._directory)


class Consumers:
    """Processes that note what they handle, each in a file of its own."""

    def __init__(self, directory: Path, arguments: list[str], stack: ExitStack) -> None:
        self._files = [directory / f"handled-{number}" for number in range(_CONSUMERS)]
        self._handled: Counter[str] = Counter()
        self._read = [0] * _CONSUMERS
        for file in self._files:
            file.touch()
            stack.enter_context(_consumer([*arguments, "--handled", str(file)]))

    def handled(self) -> Counter[str]:
        """How often each message was handled until now."""
        for number, file in enumerate(self._files):
            with file.open("rb") as lines:
                lines.seek(self._read[number])
                whole, newline, _ = lines.read().rpartition(b"\n")
            self._read[number] += len(whole) + len(newline)
            self._handled.update(whole.decode().split())
        return self._handled


@contextmanager
def _consumer(arguments: list[str]) -> Generator[None]:
    process = subprocess.Popen([sys.executable, "-m", __spec__.name, *arguments])
    try:
        yield
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()


async def consume(nsqds: list[str], store: Store, file: Path, seed: int) -> None:
    """Handle messages until SIGTERM, and note each."""
    handled = os.open(file, os.O_WRONLY | os.O_APPEND)
    rng = random.Random(seed)

    async def handle(message: nsq.Message) -> None:
        await anyio.sleep(rng.expovariate(500))
        os.write(handled, message.payload + b"\n")

    await nsq.serve(
        handle,
        _TOPIC,
        _CHANNEL,
        nsqd=nsqds,
        concurrency=20,
        deduplicate=nsq.Deduplicate(store),
        options=nsq.ConsumerOptions(reconnect_delay=0.1, max_reconnect_delay=0.5),
    )


class Ledger:
    """The rounds, and what each has published."""

    def __init__(self, nsqds: list[Nsqd], consumers: Consumers, rng: random.Random) -> None:
        self._nsqds = nsqds
        self._consumers = consumers
        self._rng = rng
        self._repeated = 0

    async def run(self, rounds: int, messages: int) -> Figures:
        started = time.monotonic()
        options = nsq.ProducerOptions(publish_timeout=5, reconnect_delay=0.1, max_reconnect_delay=0.5)
        addresses = [nsqd.tcp_address for nsqd in self._nsqds]
        published: set[str] = set()
        async with nsq.produce(addresses, copies=2, options=options) as producer:
            for number in range(rounds):
                ids = [f"{number}-{each}" for each in range(messages // rounds)]
                await self._round(producer, ids)
                published.update(ids)
                await self._until_handled(published)
            await self._until_empty()
        handled = self._consumers.handled()
        return Figures(
            published=len(published),
            lost=len(published - handled.keys()),
            handled_twice=sum(times - 1 for times in handled.values()),
            repeated_publishes=self._repeated,
            killed=rounds,
            seconds=time.monotonic() - started,
        )

    async def _round(self, producer: nsq.Producer, ids: list[str]) -> None:
        waiting = list(ids)
        victim = self._rng.choice(self._nsqds)
        due = self._rng.randrange(len(ids))  # once so many are left to publish

        async def publish() -> None:
            while waiting:
                id = waiting.pop()
                while not await self._published(producer, id):
                    self._repeated += 1

        async def kill() -> None:
            while len(waiting) > due:  # noqa: ASYNC110 - nothing sets an event
                await anyio.sleep(0.001)
            await anyio.to_thread.run_sync(victim.lose_everything)
            await anyio.sleep(self._rng.uniform(0, 0.5))
            victim.start()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(kill)
            for _ in range(_PUBLISHERS):
                tasks.start_soon(publish)

    async def _published(self, producer: nsq.Producer, id: str) -> bool:
        try:
            await producer.publish(_TOPIC, id, headers={"nsq-id": id})
        except nsq.PublishError:
            return False
        return True

    async def _until_handled(self, published: set[str]) -> None:
        with anyio.move_on_after(_SECONDS_OF_A_ROUND):  # what is missing then is lost
            while not published <= self._consumers.handled().keys():  # noqa: ASYNC110 - other processes
                await anyio.sleep(0.05)

    async def _until_empty(self) -> None:
        """Wait until no nsqd has a copy that may still be handled."""
        for nsqd in self._nsqds:
            async with nsq.http.Nsqd(f"http://{nsqd.http_address}") as client:
                with anyio.fail_after(_SECONDS_OF_A_ROUND):
                    while await _waiting(client):  # noqa: ASYNC110 - another process
                        await anyio.sleep(0.1)


async def _waiting(client: nsq.http.Nsqd) -> int:
    stats = await client.stats(topic=_TOPIC)
    channels = [channel for topic in stats.topics for channel in topic.channels]
    waiting = sum(each.depth + each.in_flight_count + each.deferred_count for each in channels)
    return waiting + sum(topic.depth for topic in stats.topics)


def run(store: str, rounds: int, messages: int, seed: int) -> Figures:
    """Run the rounds, and return what has happened."""
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ledger-")))
        place = str(directory / "ids.db")
        if store == "redis":
            place = stack.enter_context(redis_server()).url
        nsqds = [Nsqd(directory / f"nsqd-{number}") for number in range(3)]
        for nsqd in nsqds:
            nsqd.start()
            stack.callback(nsqd.lose_everything)
        flags = [
            f"--{name}={value}" for name, value in {"store": store, "place": place, "seed": seed}.items()
        ]
        addresses = [f"--nsqd={nsqd.tcp_address}" for nsqd in nsqds]
        consumers = Consumers(directory, [*flags, *addresses], stack)
        return anyio.run(Ledger(nsqds, consumers, random.Random(seed)).run, rounds, messages)


def main() -> None:
    parser = argparse.ArgumentParser(description="Count the messages that are lost or handled twice.")
    parser.add_argument("--store", choices=("redis", "sqlite"), default="redis")
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--place", help="of a consumer's process: where the store is")
    parser.add_argument("--handled", type=Path, help="of a consumer's process: what it has handled")
    parser.add_argument("--nsqd", action="append", help="of a consumer's process")
    flags = parser.parse_args()
    logging.getLogger("nsq_anyio").setLevel(logging.CRITICAL)  # nsqds are away all the time
    if flags.handled:
        store = RedisStore(flags.place) if flags.store == "redis" else SQLiteStore(flags.place)
        anyio.run(consume, flags.nsqd, store, flags.handled, flags.seed)
        return
    print(f"seed {flags.seed}", flush=True)
    print(run(flags.store, flags.rounds, flags.messages, flags.seed), flush=True)


if __name__ == "__main__":
    main()
