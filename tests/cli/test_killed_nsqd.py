"""kill -9 of ``nsq-anyio nsqd`` at random moments: what it has confirmed is delivered by its successors.

`NSQ_ANYIO_KILLS` is the number of rounds; there are few by default, because CI has little time.
"""

import os
import random
import signal
import socket
import struct
import threading
import time
from pathlib import Path

import pytest

from tests.cli.servers import ANY_PORTS, listening, running

ROUNDS = int(os.environ.get("NSQ_ANYIO_KILLS", "4"))
DURABLE = ("--mem-queue-size=0", "--sync-every=1", "--max-bytes-per-file=20000", "--max-msg-size=1000")
LIMIT = 30.0


def frame(stream: socket.socket) -> tuple[int, bytes]:
    size, kind = struct.unpack(">ii", exactly(stream, 8))
    return kind, exactly(stream, size - 4)


def exactly(stream: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        received = stream.recv(count - len(data))
        if not received:
            raise ConnectionError
        data += received
    return data


def connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    stream = socket.create_connection((host, int(port)), LIMIT)
    stream.sendall(b"  V2")
    return stream


class Ledger:
    """What was confirmed, and what was finished; the FINs of a process that is killed may be lost."""

    def __init__(self, topic: str = "t") -> None:
        self.topic = topic.encode()
        self.confirmed: set[int] = set()
        self.delivered: set[int] = set()
        self.next = 0
        self.lock = threading.Lock()

    def number(self) -> int:
        with self.lock:
            self.next += 1
            return self.next

    def publish(self, address: str, seed: float) -> None:
        """Publish by all three commands until the connection ends."""
        rng = random.Random(seed)
        try:
            with connect(address) as stream:
                while True:
                    numbers = [self.number() for _ in range(rng.randint(1, 20))]
                    bodies = [b"%d " % number + b"x" * rng.randint(0, 300) for number in numbers]
                    kind = rng.choice(["PUB", "MPUB", "DPUB"])
                    if kind == "MPUB":
                        parts = b"".join(struct.pack(">I", len(body)) + body for body in bodies)
                        body = struct.pack(">I", len(bodies)) + parts
                        sent = [b"MPUB %b\n" % self.topic + struct.pack(">I", len(body)) + body]
                    else:
                        line = b"%b %b" % (kind.encode(), self.topic)
                        line += b"\n" if kind == "PUB" else b" %d\n" % rng.randint(1, 300)
                        sent = [line + struct.pack(">I", len(body)) + body for body in bodies]
                    stream.sendall(b"".join(sent))
                    for index in range(len(sent)):
                        if frame(stream) != (0, b"OK"):
                            raise ConnectionError
                        self.confirmed.update(numbers if kind == "MPUB" else [numbers[index]])
        except OSError:
            return

    def consume(self, address: str, seed: float, *, until_all: bool = False) -> None:
        """Finish some messages, requeue some, and hold some back, until the connection ends."""
        rng = random.Random(seed)
        try:
            with connect(address) as stream:
                stream.sendall(b"SUB %b c\nRDY 20\n" % self.topic)
                deadline = time.monotonic() + LIMIT
                while not (until_all and self.confirmed <= self.delivered):
                    assert time.monotonic() < deadline, f"{len(self.confirmed - self.delivered)} are lost"
                    kind, data = frame(stream)
                    if data == b"_heartbeat_":
                        stream.sendall(b"NOP\n")
                    if kind != 2:
                        continue
                    message_id, body = data[10:26], data[26:]
                    chance = 1.0 if until_all else rng.random()
                    if chance < 0.3:
                        stream.sendall(b"REQ %b %d\n" % (message_id, rng.choice([0, 50])))
                    elif chance > 0.35:
                        self.delivered.add(int(body.split()[0]))
                        stream.sendall(b"FIN %b\n" % message_id)
        except OSError:
            assert not until_all


@pytest.mark.timeout(60 + 10 * ROUNDS)
def test_nothing_that_was_confirmed_is_lost(tmp_path: Path) -> None:
    ledger = Ledger()
    rng = random.Random(1)
    flags = (*ANY_PORTS, f"--data-path={tmp_path}", "--msg-timeout=2s", *DURABLE)
    for number in range(ROUNDS):
        with running("nsqd", *flags) as nsqd:
            address = listening(nsqd)["TCP"]
            threads = [
                threading.Thread(target=ledger.publish, args=(address, number * 10 + n)) for n in range(3)
            ]
            threads.append(threading.Thread(target=ledger.consume, args=(address, number)))
            for thread in threads:
                thread.start()
            time.sleep(rng.uniform(0.05, 0.6))
            nsqd.send_signal(signal.SIGKILL)
            nsqd.wait()
            for thread in threads:
                thread.join()
    with running("nsqd", *flags) as nsqd:
        ledger.consume(listening(nsqd)["TCP"], 0, until_all=True)
    assert len(ledger.confirmed) > 20 * ROUNDS
    assert ledger.confirmed <= ledger.delivered


def test_by_default_only_what_was_in_memory_is_lost(tmp_path: Path) -> None:
    """As nsqd: its memory is lost, its files are not, synced or not."""
    flags = (*ANY_PORTS, f"--data-path={tmp_path}", "--mem-queue-size=100")
    with running("nsqd", *flags) as nsqd, connect(listening(nsqd)["TCP"]) as stream:
        stream.sendall(b"SUB t c\n")
        stream.sendall(b"".join(b"PUB t\n" + struct.pack(">I", 3) + b"%03d" % n for n in range(500)))
        assert [frame(stream) for _ in range(501)] == [(0, b"OK")] * 501
        nsqd.send_signal(signal.SIGKILL)
        nsqd.wait()
    with running("nsqd", *flags) as nsqd, connect(listening(nsqd)["TCP"]) as stream:
        stream.sendall(b"SUB t c\nRDY 1000\n")
        assert frame(stream) == (0, b"OK")
        assert [frame(stream)[1][26:] for _ in range(400)] == [b"%03d" % n for n in range(100, 500)]
