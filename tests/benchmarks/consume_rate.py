"""How fast messages are consumed from one real nsqd, beside a bare socket that does the least possible.

::

    python -m tests.benchmarks.consume_rate --messages 1000000 --size 100 --max-in-flight 2500

Every reader gets all messages through a channel of its own, and must get each exactly once. The readers run
one after the other in this process. Use enough messages: nsqd holds the last ones back for 250 ms.
"""

from __future__ import annotations

import argparse
import dataclasses
import http.client
import json
import socket
import struct
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import anyio
from anyio.from_thread import start_blocking_portal

import nsq_anyio as nsq

from ..real_servers import RealServer, real_nsqd

__all__ = ["READERS", "Rate", "filled_nsqd", "measure", "report"]

TOPIC = "rate"
NUMBER_LENGTH = 8
"""Each body begins with its number, as so many bytes."""
PUBLISH_SIZE = 2 * 1024 * 1024
"""Bytes of one /mpub, well below nsqd's --max-body-size."""
CHUNK_SIZE = 256 * 1024
STALLED = 30.0
"""Seconds without a message after which a reader gives up."""


@dataclass(frozen=True, slots=True)
class Rate:
    """What one reader did.

    :ivar seconds: from connecting to the last message
    :ivar distinct: how many different messages came
    :ivar unanswered: how many nsqd still had, waiting or in flight, after the reader had gone
    """

    reader: str
    messages: int
    distinct: int
    unanswered: int
    seconds: float

    @property
    def per_second(self) -> float:
        return self.messages / self.seconds

    @property
    def is_exactly_once(self) -> bool:
        return self.distinct == self.messages and self.unanswered == 0


Read = Callable[[str, str, int, int], list[bytes]]
"""Takes nsqd's address, a channel, how many messages to take and how many may be in flight; returns the
number at the start of each."""


def read_bare(nsqd: str, channel: str, count: int, max_in_flight: int) -> list[bytes]:
    """A blocking socket and a loop: no checks, no tasks, no objects."""
    host, _, port = nsqd.rpartition(":")
    identity = json.dumps({"feature_negotiation": True}).encode()
    numbers: list[bytes] = []
    append = numbers.append
    unpack = struct.Struct(">II").unpack_from
    with socket.create_connection((host, int(port)), timeout=STALLED) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(b"  V2IDENTIFY\n" + struct.pack(">I", len(identity)) + identity)
        connection.sendall(b"SUB %b %b\nRDY %d\n" % (TOPIC.encode(), channel.encode(), max_in_flight))
        data = b""
        while len(numbers) < count:
            received = connection.recv(CHUNK_SIZE)
            if not received:
                raise ConnectionError(f"nsqd closed the connection after {len(numbers)} of {count} messages")
            data += received
            end = len(data)
            answers: list[bytes] = []
            start = 0
            while start + 8 <= end:
                size, frame_type = unpack(data, start)
                following = start + 4 + size
                if following > end:
                    break
                if frame_type == 2:
                    # size, type, timestamp (8), attempts (2), id (16), body
                    answers.append(b"FIN " + data[start + 18 : start + 34] + b"\n")
                    append(data[start + 34 : start + 34 + NUMBER_LENGTH])
                elif frame_type == 1:
                    raise ConnectionError(f"nsqd answered {data[start + 8 : following]!r}")
                elif data[start + 8 : following] == b"_heartbeat_":
                    answers.append(b"NOP\n")
                start = following
            data = data[start:]
            connection.sendall(b"".join(answers))
        # nsqd reads all answers before it sees the end, and then closes its side.
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(CHUNK_SIZE):
            pass
    return numbers


async def iterate(nsqd: str, channel: str, count: int, max_in_flight: int) -> list[bytes]:
    """The plain iteration of this package."""
    numbers: list[bytes] = []
    append = numbers.append
    async with nsq.consume(TOPIC, channel, nsqd=nsqd, max_in_flight=max_in_flight) as consumer:
        async for message in consumer:
            append(message.body[:NUMBER_LENGTH])
            message.finish()
            if len(numbers) == count:
                break
    return numbers


def read_on_asyncio(nsqd: str, channel: str, count: int, max_in_flight: int) -> list[bytes]:
    return anyio.run(iterate, nsqd, channel, count, max_in_flight, backend="asyncio")


def read_on_trio(nsqd: str, channel: str, count: int, max_in_flight: int) -> list[bytes]:
    return anyio.run(iterate, nsqd, channel, count, max_in_flight, backend="trio")


READERS: dict[str, Read] = {
    "bare-socket": read_bare,
    "asyncio": read_on_asyncio,
    "trio": read_on_trio,
}


@contextmanager
def filled_nsqd(messages: int, size: int) -> Generator[RealServer]:
    """Run a real nsqd whose channels, one for each reader, have all messages in memory."""
    flags = [f"--mem-queue-size={messages}"]
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(real_nsqd(flags=flags)) as nsqd:
        request(nsqd, "POST", f"/topic/create?topic={TOPIC}")
        for channel in READERS:
            request(nsqd, "POST", f"/channel/create?topic={TOPIC}&channel={channel}")
        padding = b"." * (size - NUMBER_LENGTH)
        per_publish = max(PUBLISH_SIZE // (size + 4), 1)
        for first in range(0, messages, per_publish):
            numbers = range(first, min(first + per_publish, messages))
            encoded = b"".join(
                struct.pack(">I", size) + number.to_bytes(NUMBER_LENGTH, "big") + padding
                for number in numbers
            )
            body = struct.pack(">I", len(numbers)) + encoded
            request(nsqd, "POST", f"/mpub?topic={TOPIC}&binary=true", body)
        wait_until_filled(nsqd, messages)
        yield nsqd


def wait_until_filled(nsqd: RealServer, messages: int) -> None:
    """The topic hands its messages to the channels in the background."""
    give_up_at = time.monotonic() + STALLED
    while not all(depth(nsqd, channel) == messages for channel in READERS):
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"the channels did not get {messages} messages within {STALLED:g} s")
        time.sleep(0.01)


def depth(nsqd: RealServer, channel: str) -> int:
    """How many messages nsqd has in a channel, waiting or in flight."""
    stats = json.loads(request(nsqd, "GET", f"/stats?format=json&topic={TOPIC}&channel={channel}"))
    (found,) = stats["topics"][0]["channels"]
    count: int = found["depth"] + found["in_flight_count"] + found["deferred_count"]
    return count


def request(nsqd: RealServer, method: str, path: str, body: bytes = b"") -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", nsqd.http_port, timeout=STALLED)
    try:
        connection.request(method, path, body)
        reply = connection.getresponse()
        data = reply.read()
        if reply.status != http.client.OK:
            raise ConnectionError(f"nsqd answered {reply.status} {data!r} to {method} {path}")
        return data
    finally:
        connection.close()


def measure(reader: str, nsqd: RealServer, messages: int, max_in_flight: int) -> Rate:
    """Let one reader consume its channel."""
    started_at = time.perf_counter()
    numbers = READERS[reader](nsqd.tcp_address, reader, messages, max_in_flight)
    seconds = time.perf_counter() - started_at
    seen = bytearray(messages)
    for number in numbers:
        seen[int.from_bytes(number, "big")] = 1
    return Rate(reader, len(numbers), sum(seen), depth(nsqd, reader), seconds)


def report(rates: Sequence[Rate]) -> str:
    """A table of all rates beside that of the bare socket."""
    (bare,) = [rate for rate in rates if rate.reader == "bare-socket"]
    lines = [f"{'reader':<12} {'messages':>10} {'seconds':>8} {'msg/s':>10} {'ratio':>6}  each once"]
    lines += [
        f"{rate.reader:<12} {rate.messages:>10,} {rate.seconds:>8.2f} {rate.per_second:>10,.0f} "
        f"{rate.per_second / bare.per_second:>6.2f}  {'yes' if rate.is_exactly_once else 'NO'}"
        for rate in rates
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--messages", type=int, default=1_000_000, help="default: %(default)s")
    parser.add_argument(
        "--size", type=int, default=100, help="bytes of a body, 8 or more; default: %(default)s"
    )
    parser.add_argument("--max-in-flight", type=int, default=2500, help="default: %(default)s")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    arguments = parser.parse_args()
    if arguments.messages < 1 or arguments.size < NUMBER_LENGTH or not 1 <= arguments.max_in_flight <= 2500:
        parser.error("--messages is 1 or more, --size 8 or more, --max-in-flight 1 to 2500")
    with filled_nsqd(arguments.messages, arguments.size) as nsqd:
        rates = [measure(reader, nsqd, arguments.messages, arguments.max_in_flight) for reader in READERS]
    if arguments.json:
        rows = [dataclasses.asdict(rate) | {"per_second": round(rate.per_second)} for rate in rates]
        print(json.dumps(rows, indent=2))  # noqa: T201 - a program: it prints
    else:
        print(report(rates))  # noqa: T201
    if not all(rate.is_exactly_once for rate in rates):
        raise SystemExit("some messages did not come exactly once")


if __name__ == "__main__":
    main()
