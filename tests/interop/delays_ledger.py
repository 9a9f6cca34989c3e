"""A ledger of delayed messages: services are killed, nsqd restarts, and every message is accounted for.

::

    python -m tests.interop.delays_ledger --messages 200000 --kills 30 --restarts 5 --seconds 200

It runs a real nsqd and services with a file each, in processes of their own, kills one of the services again
and again at random, and restarts nsqd from its data path. It prints what became of the messages, and fails if
one was lost or early, or if the median of the lateness is 50 ms or more.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import anyio
from anyio.abc import Process

import nsq_anyio as nsq

from .cluster import Cluster, Server, run_cluster

_PUBLISHERS = 50
_SOONEST = 1.0
_LATEST = 10.0
_LONGEST_WAIT = 120.0
_SERVE = """
import sys, anyio
import nsq_anyio as nsq

async def main(path, nsqd):
    # What a killed service held comes again after this time.
    async with nsq.delays(path, nsqd=nsqd, connection=nsq.ConnectionOptions(msg_timeout=5.0)):
        await anyio.sleep_forever()

anyio.run(main, *sys.argv[2:], backend=sys.argv[1])
"""


@dataclass(slots=True)
class Account:
    """What became of the messages.

    :ivar lost: messages that never arrived
    :ivar early: deliveries before their time
    :ivar published_twice: messages that nsqd has stored under several ids, without those of ``uncertain``
    :ivar uncertain: messages whose first publish had no known outcome, so that this program published again
    :ivar delivered_again: further deliveries under the same id, as when nsqd restarts
    :ivar median_late: the median of the lateness, in seconds, and so on
    """

    messages: int
    kills: int = 0
    restarts: int = 0
    lost: int = 0
    early: int = 0
    published_twice: int = 0
    uncertain: int = 0
    delivered_again: int = 0
    median_late: float = 0.0
    p99_late: float = 0.0
    longest_late: float = 0.0


@dataclass(slots=True)
class Ledger:
    """The messages by their numbers: the ids under which they arrived, and how late the first one was."""

    ids: defaultdict[int, list[str]] = field(default_factory=lambda: defaultdict(list))
    late: dict[int, float] = field(default_factory=dict[int, float])
    early: int = 0
    uncertain: set[int] = field(default_factory=set[int])

    async def consume(self, nsqd: str) -> None:
        async with nsq.consume("later", "c", nsqd=nsqd, max_in_flight=1000) as consumer:
            async for message in consumer:
                number, at = message.body.split()
                late = time.time() - float(at)
                self.early += late < 0
                self.late.setdefault(int(number), late)
                self.ids[int(number)].append(message.id)
                message.finish()

    async def publish(self, producer: nsq.Producer, number: int, at: float) -> None:
        """Publish a message until nsqd has it."""
        text = f"{at:.6f}"
        while True:
            try:
                moment = datetime.fromtimestamp(float(text), UTC)
                await producer.publish("later", f"{number} {text}", at=moment, durable=True)
            except nsq.OutcomeUnknown:
                self.uncertain.add(number)
            except nsq.NotSent:
                pass
            else:
                return

    def close(self, account: Account) -> None:
        """Add everything up."""
        account.lost = account.messages - len(self.late)
        account.early = self.early
        account.uncertain = len(self.uncertain)
        several = {number for number, ids in self.ids.items() if len(set(ids)) > 1}
        account.published_twice = len(several - self.uncertain)
        account.delivered_again = sum(len(ids) - len(set(ids)) for ids in self.ids.values())
        late = sorted(self.late.values())
        account.median_late = statistics.median(late)
        account.p99_late = late[len(late) * 99 // 100]
        account.longest_late = late[-1]


async def serve(backend: str, path: Path, nsqd: str) -> Process:
    """Start a service in a process of its own."""
    command = [sys.executable, "-c", _SERVE, backend, str(path), nsqd]
    return await anyio.open_process(command, stdout=None, stderr=None)


async def kill_at_random(
    services: list[Process],
    paths: list[Path],
    nsqd: str,
    account: Account,
    seconds: float,
    kills: int,
    chance: random.Random,
) -> None:
    """Kill one service after the other, and start it again with its file."""
    for _ in range(kills):
        await anyio.sleep(chance.uniform(0, 2 * seconds / max(kills, 1)))
        which = chance.randrange(len(services))
        services[which].kill()
        await services[which].wait()
        account.kills += 1
        services[which] = await serve(("asyncio", "trio")[account.kills % 2], paths[which], nsqd)


async def restart_nsqd(
    cluster: Cluster, nsqd: Server, data: Path, account: Account, seconds: float, restarts: int
) -> None:
    """Restart nsqd, as an operator would."""
    for _ in range(restarts):
        await anyio.sleep(seconds / (restarts + 1))
        await nsqd.stop()
        nsqd = await cluster.nsqd("real", succeeding=nsqd, data_path=data)
        account.restarts += 1


async def run(
    *, messages: int, kills: int, restarts: int, seconds: float, services: int, seed: int
) -> Account:
    """Publish messages for ``seconds``, each for a few seconds later, and wait until all have arrived."""
    chance = random.Random(seed)
    account, ledger = Account(messages), Ledger()
    with tempfile.TemporaryDirectory(prefix="delays-") as place:
        directory = Path(place)
        data = directory / "nsqd"
        data.mkdir()
        paths = [directory / f"delays-{number}" for number in range(services)]
        running: list[Process] = []
        async with run_cluster() as cluster, anyio.create_task_group() as tasks:
            channels = {"nsq.delays": ["delays"], "later": ["c"]}
            nsqd = await cluster.nsqd("real", data_path=data, channels=channels)
            address = nsqd.tcp_address
            try:
                running += [await serve("asyncio", path, address) for path in paths]
                tasks.start_soon(ledger.consume, address)
                async with anyio.create_task_group() as disturbances:
                    disturbances.start_soon(
                        kill_at_random, running, paths, address, account, seconds, kills, chance
                    )
                    disturbances.start_soon(restart_nsqd, cluster, nsqd, data, account, seconds, restarts)
                    await publish_all(ledger, address, messages, seconds, chance)
                with anyio.move_on_after(_LONGEST_WAIT):
                    while len(ledger.late) < messages:  # noqa: ASYNC110 - no event tells
                        await anyio.sleep(0.1)
            finally:
                for process in running:
                    process.kill()
            tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True):
            for process in running:
                await process.aclose()
    ledger.close(account)
    return account


async def publish_all(
    ledger: Ledger, nsqd: str, messages: int, seconds: float, chance: random.Random
) -> None:
    """Publish all messages at a steady rate, each for some time to come; those who publish share the work."""
    numbers = iter(range(messages))
    begun = time.time()
    async with nsq.produce(nsqd, delays="nsq.delays") as producer:

        async def work() -> None:
            for number in numbers:
                await anyio.sleep(max(begun + seconds * number / messages - time.time(), 0.0))
                await ledger.publish(producer, number, time.time() + chance.uniform(_SOONEST, _LATEST))

        async with anyio.create_task_group() as publishing:
            for _ in range(_PUBLISHERS):
                publishing.start_soon(work)


def main() -> None:
    """Run with the arguments of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=200_000)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--restarts", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=200.0)
    parser.add_argument("--services", type=int, default=2)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    arguments = vars(parser.parse_args())
    print(arguments, flush=True)  # noqa: T201
    account = anyio.run(lambda: run(**arguments))
    print(json.dumps(asdict(account), indent=1))  # noqa: T201
    if account.lost or account.early or account.median_late >= 0.05:
        sys.exit("the ledger does not add up")


if __name__ == "__main__":
    main()
