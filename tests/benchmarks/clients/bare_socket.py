"""A blocking socket and a loop: no checks, no tasks, no objects. What no client can be faster than."""

from __future__ import annotations

import json
import socket
import ssl
import struct

from .meter import Meter
from .task import Task, read_task

CHUNK_SIZE = 256 * 1024
STALLED = 60.0
"""Seconds without a byte from nsqd after which it counts as dead."""

OK_LENGTH = len(b"\0\0\0\x06\0\0\0\0OK")

_UINT32 = struct.Struct(">I")


def connect(task: Task) -> socket.socket:
    """Return a connection that has said who it is."""
    host, _, port = task.nsqds[0].rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=STALLED)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    fields: dict[str, object] = {"feature_negotiation": True, "tls_v1": bool(task.ca_file)}
    if task.kind == "publish":
        fields["heartbeat_interval"] = -1  # then there is nothing to receive but the answers
    identity = json.dumps(fields).encode()
    connection.sendall(b"  V2IDENTIFY\n" + _UINT32.pack(len(identity)) + identity)
    read_answer(connection)
    if task.ca_file:
        context = ssl.create_default_context(cafile=task.ca_file)
        connection = context.wrap_socket(connection, server_hostname=host)
        read_answer(connection)
    return connection


def read_answer(connection: socket.socket) -> None:
    """Take one answer; nothing follows it yet."""
    answer = connection.recv(65536)
    if answer[4:8] != bytes(4):
        raise ConnectionError(f"nsqd answered {answer!r}")


def received(connection: socket.socket) -> bytes:
    """Wait for bytes, and return them."""
    data = connection.recv(CHUNK_SIZE)
    if not data:
        raise ConnectionError("nsqd closed the connection")
    return data


def consume(task: Task) -> None:
    """Take messages, and finish each."""
    meter = Meter(task)
    left = meter.begin()
    unpack = struct.Struct(">II").unpack_from
    with connect(task) as connection:
        connection.sendall(b"SUB %b %b\n" % (task.topic.encode(), task.channel.encode()))
        read_answer(connection)
        connection.sendall(b"RDY %d\n" % task.max_in_flight)
        data = b""
        while not meter.done:
            data += received(connection)
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
                    left -= 1
                    if not left:
                        left = meter.next()
                elif frame_type == 1:
                    raise ConnectionError(f"nsqd answered {data[start + 8 : following]!r}")
                else:
                    answers.append(b"NOP\n")  # to a heartbeat: nothing else was asked
                start = following
            data = data[start:]
            connection.sendall(b"".join(answers))
        finish(connection)
    meter.report(left)


def publish(task: Task) -> None:
    """Publish with `concurrency` commands under way, each with `batch` messages."""
    meter = Meter(task)
    left = meter.begin()
    command = publish_command(task)
    with connect(task) as connection:
        while not meter.done:
            window = min(task.concurrency, max(left // task.batch, 1))
            connection.sendall(command * window)
            expected = OK_LENGTH * window
            while expected:
                answers = connection.recv(min(expected, CHUNK_SIZE))
                if not answers or b"E_" in answers:
                    raise ConnectionError(f"nsqd answered {answers!r}")
                expected -= len(answers)
            left -= window * task.batch
            if not left:
                left = meter.next()
        finish(connection)
    meter.report(left)


def publish_command(task: Task) -> bytes:
    """PUB, or MPUB for a batch."""
    body = b"." * task.size
    if task.batch == 1:
        return b"PUB %b\n" % task.topic.encode() + _UINT32.pack(len(body)) + body
    bodies = (_UINT32.pack(len(body)) + body) * task.batch
    return b"MPUB %b\n" % task.topic.encode() + struct.pack(">II", len(bodies) + 4, task.batch) + bodies


def finish(connection: socket.socket) -> None:
    """Close once nsqd has read everything: then it closes its side."""
    connection.settimeout(STALLED)
    if isinstance(connection, ssl.SSLSocket):
        connection.sendall(b"CLS\n")
        while connection.recv(CHUNK_SIZE)[-10:] != b"CLOSE_WAIT":
            pass
        return
    connection.shutdown(socket.SHUT_WR)
    while connection.recv(CHUNK_SIZE):
        pass


if __name__ == "__main__":
    {"consume": consume, "publish": publish}[read_task().kind](read_task())
