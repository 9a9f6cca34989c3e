"""What a hostile nsqd can make a consumer hold, measured as the peak memory of a process of its own."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import closing, contextmanager, suppress
from itertools import count

import pytest

from nsq_anyio.protocol.frames import FRAME_RESPONSE, encode_frame, encode_message_frame

from ..fake_nsqd import message_id

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="/proc tells the peak of a process's memory"
)

MESSAGES = 50_000
"""What each of them pushes; some 250 bytes are held for one."""

CHUNK = 500
CONNECTIONS = 2
MOST_MIB = 20
"""Nothing but chunks under way: the messages of all four would be 50 MiB."""

PROGRAM = """
import logging, sys
import anyio
import nsq_anyio as nsq

LOOP, HOW, *NSQDS = sys.argv[1:]

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) // 1024

async def handle(message):
    pass

async def main():
    options = nsq.ConsumerOptions(reconnect_delay=0.01, max_reconnect_delay=0.02)
    async with anyio.create_task_group() as tasks:
        async with nsq.consume("t", "c", nsqd=NSQDS, max_in_flight=len(NSQDS), options=options) as consumer:
            if HOW == "handled":
                tasks.start_soon(consumer.run, handle)
            before = peak()
            await anyio.to_thread.run_sync(sys.stdin.read)
            print(peak() - before)
            tasks.cancel_scope.cancel()

logging.disable()
anyio.run(main, backend=LOOP)
"""


def attempts(kind: str) -> Generator[bytes]:
    """Chunks of messages, without an end."""
    body, numbers = b"x" * 10, count(1)
    while True:
        chunk: list[bytes] = []
        for number in (next(numbers) for _ in range(CHUNK)):
            id = message_id(7 if "one id" in kind else number)
            attempt = number % 65534 + 2 if "attempts" in kind else 1
            chunk.append(encode_message_frame(1_700_000_000_000_000_000, attempt, id, body))
        yield b"".join(chunk)


def converse(connection: socket.socket, kind: str) -> None:
    connection.recv(65536)
    connection.sendall(encode_frame(FRAME_RESPONSE, json.dumps({"max_rdy_count": 2**53}).encode()))
    connection.recv(65536)
    connection.sendall(encode_frame(FRAME_RESPONSE, b"OK"))
    chunks = attempts(kind)
    for _ in range(MESSAGES // CHUNK):
        connection.sendall(next(chunks))


@contextmanager
def hostile(kind: str) -> Generator[tuple[str, threading.Thread]]:
    """An nsqd whose thread ends once it was hung up on often enough, or has pushed all that often."""

    def serve(listener: socket.socket) -> None:
        for _ in range(CONNECTIONS):
            connection, _ = listener.accept()
            with closing(connection), suppress(ConnectionError):
                converse(connection, kind)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}", thread


@pytest.mark.parametrize("loop", ["asyncio", "trio"])
@pytest.mark.parametrize("how", ["untaken", "handled"])
def test_what_a_flood_makes_a_consumer_hold(loop: str, how: str) -> None:
    with (
        hostile("one id") as one,
        hostile("one id, more attempts") as two,
        hostile("new ids") as three,
        hostile("new ids, more attempts") as four,
    ):
        nsqds = [one, two, three, four]
        command = [sys.executable, "-c", PROGRAM, loop, how, *(address for address, _ in nsqds)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
            try:
                for _, thread in nsqds:
                    thread.join(40)
                    assert not thread.is_alive()
                output, _ = process.communicate(timeout=10)
            finally:
                process.kill()
    assert process.returncode == 0
    assert int(output) < MOST_MIB
