"""A ledger of restarts: messages that are only handed back are never given up, and no message is lost.

Each program prefetches many more messages than it handles before it is ended. In the long form, which runs
with ``NSQ_ANYIO_LEDGER=long``, 2,000 messages go through 30 restarts of each program.
"""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from collections import Counter
from functools import partial
from pathlib import Path

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.consumer.dead_letter import original_body

from ..processes import ending
from .cluster import Cluster, Server
from .observe import PROMPT, until, until_told

IS_LONG = os.environ.get("NSQ_ANYIO_LEDGER") == "long"

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.parametrize("anyio_backend", ["asyncio"]),
    pytest.mark.timeout(1800 if IS_LONG else 120),
    pytest.mark.skipif(sys.platform == "win32", reason="it kills by signals"),
]

MESSAGES, RESTARTS = (2000, 30) if IS_LONG else (40, 3)
MAX_ATTEMPTS = 5 if IS_LONG else 2
LIMIT = 300.0 if IS_LONG else 60.0
ROOT = Path(__file__).parents[2]
PROGRAMS = ["run", "serve", "iteration", "batches", "sync"]
ENDS = ["SIGTERM", "SIGKILL", "exit", "crash", "SIGTERM, SIGKILL"]

PROGRAM = '''
import os, signal, sys, time
import anyio
import nsq_anyio as nsq

PROGRAM, BACKEND, ADDRESS, TOPIC = sys.argv[1:] if __name__ == "__main__" else ["run", "", "", ""]
EXIT_AFTER, CRASH_AFTER = int(os.environ["EXIT_AFTER"]), int(os.environ["CRASH_AFTER"])
OPTIONS = nsq.ConsumerOptions(
    max_attempts=int(os.environ["MAX_ATTEMPTS"]), max_deliveries=int(os.environ["MAX_DELIVERIES"]) or None,
    requeue_delay=0, max_backoff_duration=0,
)
SOON = nsq.ConnectionOptions(msg_timeout=2, output_buffer_timeout=0.025)
handled = 0

def note(name, body):
    with open(f"{TOPIC}.{name}", "ab", buffering=0) as file:
        file.write(body + b"\\n")

def work(message):
    """Handle a message, which may end the process."""
    global handled
    handled += 1
    note("begun", message.body)
    if message.body == b"kills":
        os.kill(os.getpid(), signal.SIGKILL)
    if handled == CRASH_AFTER:
        os._exit(3)
    if handled == EXIT_AFTER:
        sys.exit(4)
    if message.body.startswith(b"fails"):
        raise ValueError(message.body.decode())
    note("done", message.body)

async def handle(message):
    global TOPIC
    TOPIC = message.topic
    await anyio.sleep(0.002)
    work(message)

async def iterate(consumer):
    async for message in consumer:
        try:
            await handle(message)
        except ValueError:
            message.requeue()
        else:
            message.finish()

async def in_batches(consumer):
    async for batch in consumer.batches(10, 0.05):
        for message in batch:
            try:
                async with message:
                    await handle(message)
            except ValueError:
                pass

async def main():
    async with nsq.produce(ADDRESS) as producer:
        letters = nsq.DeadLetter("{topic}.dead", producer=producer)
        common = dict(nsqd=ADDRESS, max_in_flight=50, dead_letter=letters, options=OPTIONS, connection=SOON)
        if PROGRAM == "serve":
            await nsq.serve(handle, TOPIC, "c", **common)
            return
        async with nsq.consume(TOPIC, "c", **common) as consumer:
            async with anyio.create_task_group() as tasks:
                async def stop():
                    with anyio.open_signal_receiver(signal.SIGTERM) as signals:
                        async for _ in signals:
                            consumer.stop()
                tasks.start_soon(stop)
                await (iterate if PROGRAM == "iteration" else in_batches)(consumer)
                tasks.cancel_scope.cancel()

def main_sync():
    def give_up(message):
        note("given-up", message.body)
    with nsq.sync.consume(
        TOPIC, "c", nsqd=ADDRESS, max_in_flight=50, on_give_up=give_up, options=OPTIONS, connection=SOON,
        backend=BACKEND,
    ) as consumer:
        signal.signal(signal.SIGTERM, lambda *_: consumer.stop())
        for message in consumer:
            time.sleep(0.002)
            try:
                with message:
                    work(message)
            except ValueError:
                pass

if __name__ == "__main__":
    if PROGRAM == "sync":
        main_sync()
    else:
        anyio.run(main, backend=BACKEND)
'''


class Runs:
    """The runs of one program on its own topic, one after the other."""

    def __init__(self, program: str, nsqd: Server, path: Path, max_deliveries: int = 0) -> None:
        self.program = program
        self.topic = program
        self._nsqd = nsqd
        self._path = path
        self._backends = itertools.cycle(["asyncio", "trio"])
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "MAX_ATTEMPTS": str(MAX_ATTEMPTS),
            "MAX_DELIVERIES": str(max_deliveries),
        }
        self.deliveries = 0

    def lines(self, name: str) -> list[str]:
        path = self._path / f"{self.topic}.{name}"
        return path.read_text().splitlines() if path.exists() else []

    async def start(self, end: str = "", after: int = 0) -> anyio.abc.Process:
        backend = next(self._backends)
        command = ["program.py", self.program, backend, self._nsqd.tcp_address, self.topic]
        if self.program == "run":
            options = ("msg_timeout,2s", "requeue_delay,0", "max_backoff_duration,0")
            limits = (
                f"max_attempts,{MAX_ATTEMPTS}",
                f"max_deliveries,{self._environment['MAX_DELIVERIES']}",
            )
            flags = itertools.chain(options, limits if limits[1][-2:] != ",0" else limits[:1])
            command = [
                *("-m", "nsq_anyio", "run", "program:handle", "--topic", self.topic, "--channel", "c"),
                *("--nsqd-tcp-address", self._nsqd.tcp_address, "--max-in-flight", "50"),
                *("--backend", backend, "--dead-letter", "{topic}.dead"),
                *(part for flag in flags for part in ("--consumer-opt", flag)),
            ]
        with (self._path / f"{self.program}.log").open("ab") as log:
            return await anyio.open_process(
                [sys.executable, *command],
                cwd=self._path,
                env={
                    **self._environment,
                    "EXIT_AFTER": str(after if end == "exit" else 0),
                    "CRASH_AFTER": str(after if end == "crash" else 0),
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    async def until_ended(self, end: str, after: int) -> None:
        """Run the program until it has begun so many messages; then end it."""
        target = len(self.lines("begun")) + after
        async with ending(await self.start(end, after)) as process:
            await until(lambda: process.returncode is not None or len(self.lines("begun")) >= target, LIMIT)
            for name in end.split(", "):
                if name.startswith("SIG") and process.returncode is None:
                    process.send_signal(signal.Signals[name])
            with anyio.fail_after(LIMIT):
                await process.wait()

    async def until_done(self) -> None:
        """Run the program until nsqd has no more messages for it, however often it ends."""

        async def is_done() -> bool:
            channel = await self._nsqd.channel(self.topic, "c")
            return not (channel.depth or channel.in_flight_count or channel.deferred_count)

        for _ in range(5 * MAX_ATTEMPTS):
            if await is_done():
                return
            async with ending(await self.start()) as process:
                await until_told(lambda: _or_ended(process, is_done), LIMIT)
                if process.returncode is None:
                    process.terminate()
                with anyio.fail_after(LIMIT):
                    await process.wait()
        log = (self._path / f"{self.program}.log").read_text()
        raise AssertionError(f"{self.program} goes on ending: {log[-2000:]}")

    async def given_up(self) -> dict[str, str]:
        """The bodies that were given up, with their errors."""
        if self.program == "sync":
            return dict.fromkeys(self.lines("given-up"), "known to the program")
        found: dict[str, str] = {}
        async with nsq.consume(
            f"{self.topic}.dead", "c", nsqd=self._nsqd.tcp_address, max_in_flight=50, connection=PROMPT
        ) as consumer:
            depth = (await self._nsqd.channel(f"{self.topic}.dead", "c")).depth
            for _ in range(depth):
                async with await anext(consumer) as letter:
                    body = original_body(letter.payload, letter.headers).decode()
                    found[body] = letter.headers["nsq-dead-error"]
        return found


async def _or_ended(process: anyio.abc.Process, is_done: object) -> bool:
    return process.returncode is not None or await is_done()  # type: ignore[operator]


async def test_messages_that_were_handed_back_are_handled(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    topics = {name: ["c"] for program in PROGRAMS for name in (program, f"{program}.dead")}
    nsqd = await cluster.nsqd("real", channels=topics)
    bodies = [f"{'fails' if number % 20 == 7 else 'fine'} {number}" for number in range(MESSAGES)]

    async def check(program: str) -> None:
        runs = Runs(program, nsqd, tmp_path)
        await nsqd.publish(program, *(body.encode() for body in bodies))
        for end in itertools.islice(itertools.cycle(ENDS), RESTARTS):
            await runs.until_ended(end, MESSAGES // RESTARTS // 2)
        await runs.until_done()
        done, given_up = set(runs.lines("done")), await runs.given_up()
        begun = Counter(runs.lines("begun"))
        print(  # noqa: T201 - the figures of the long form
            f"{program}: {len(done)} handled in {begun.total()} handlings, {len(given_up)} given up, "
            f"{MESSAGES - len(done | given_up.keys())} lost"
        )
        assert done | given_up.keys() == set(bodies), program
        assert not [body for body in given_up if not body.startswith("fails")], program
        assert all(given_up.values()), program

    async with anyio.create_task_group() as tasks:
        for program in PROGRAMS:
            tasks.start_soon(check, program)


async def test_a_message_that_ends_its_process_each_time_is_given_up(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    topics = {name: ["c"] for program in PROGRAMS for name in (program, f"{program}.dead")}
    nsqd = await cluster.nsqd("real", channels=topics)

    async def check(program: str) -> None:
        runs = Runs(program, nsqd, tmp_path, max_deliveries=MAX_ATTEMPTS)
        await nsqd.publish(program, b"kills", b"fine")
        await runs.until_done()
        given_up = await runs.given_up()
        assert set(runs.lines("done")) | given_up.keys() == {"kills", "fine"}
        assert "kills" in given_up
        assert Counter(runs.lines("begun"))["kills"] == MAX_ATTEMPTS
        if program != "sync":
            assert "more than max_deliveries" in given_up["kills"]

    async with anyio.create_task_group() as tasks:
        for program in PROGRAMS if IS_LONG else PROGRAMS[::4]:
            tasks.start_soon(partial(check, program))
