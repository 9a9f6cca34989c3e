"""A block over a stream of a user's dialer ends in time although nsqd has not taken what was sent to it."""

from __future__ import annotations

import socket
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import anyio
import pytest
from anyio.abc import ByteStream

import nsq_anyio as nsq
from nsq_anyio.protocol.frames import FRAME_RESPONSE, encode_frame

from ..fake_nsqd import LIMIT, client_tasks, until

pytestmark = pytest.mark.anyio

BODY = bytes(1024 * 1024)
COUNT = 20
"""Far more than the kernel takes."""

PRODUCER = nsq.ProducerOptions(drain_timeout=0.3, cancelled_drain_timeout=0.3)


class Mine(Exception):
    pass


async def dial(address: str) -> ByteStream:
    host, _, port = address.rpartition(":")
    return await anyio.connect_tcp(host, int(port))


@contextmanager
def silent_nsqd() -> Generator[tuple[str, list[socket.socket]]]:
    """An nsqd that answers IDENTIFY, and then neither reads nor says anything; its connections."""
    accepted: list[socket.socket] = []

    def serve() -> None:
        with suppress(OSError):  # the listener is closed
            while True:
                peer, _ = listener.accept()
                accepted.append(peer)
                peer.recv(65536)
                peer.sendall(encode_frame(FRAME_RESPONSE, b"{}"))

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)  # accepted ones inherit it
        thread = Thread(target=serve)
        thread.start()
        try:
            yield f"127.0.0.1:{listener.getsockname()[1]}", accepted
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()
            for peer in accepted:
                peer.close()


def connected_sockets(port: int) -> list[str]:
    """Connections of this process to ``port`` that some descriptor holds; /proc tells them by inode."""
    lines = Path("/proc/self/net/tcp").read_text().splitlines()[1:]
    inodes = {f"socket:[{line.split()[9]}]" for line in lines if line.split()[2].endswith(f":{port:04X}")}
    held = [fd.readlink() for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink()]
    return [str(link) for link in held if str(link) in inodes]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc tells which sockets are open")
@pytest.mark.parametrize("how", ["ends", "raises", "is cancelled"])
async def test_unsent_bytes_hold_no_block_up(how: str) -> None:
    async def publish(producer: nsq.Producer) -> None:
        with suppress(nsq.PublishError):
            await producer.publish("t", BODY)

    with silent_nsqd() as (address, accepted):
        port = int(address.rpartition(":")[2])
        began = 0.0
        failure: Mine | None = None
        with anyio.CancelScope() as scope, suppress(Mine):
            async with anyio.create_task_group() as tasks:
                try:
                    async with nsq.produce(
                        address, options=PRODUCER, connection=nsq.ConnectionOptions(dialer=dial)
                    ) as producer:
                        for _ in range(COUNT):
                            tasks.start_soon(publish, producer)
                        await until(lambda: producer.connections)
                        await anyio.sleep(0.1)  # the kernel's buffers are full
                        assert connected_sockets(port)
                        began = anyio.current_time()
                        if how == "raises":
                            raise Mine
                        if how == "is cancelled":
                            scope.cancel()
                            await anyio.sleep_forever()
                except Mine as error:  # or this very group would wrap it
                    failure = error
            if failure is not None:
                raise failure
        assert anyio.current_time() - began < LIMIT
        assert len(accepted) == 1
        assert connected_sockets(port) == []
        assert client_tasks() == []
