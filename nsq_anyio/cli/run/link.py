"""The messages between the supervisor and a process, over a pair of sockets.

A process reports that it has started its service, and then answers questions. Each message is one line of
JSON. The end of the stream tells a process to drain. The stream also ends when the supervisor is killed, so
no process outlives the supervisor for long.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from typing import Any

import anyio
from anyio.abc import ByteStream, SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from ...service.endpoint import Health, MetricsUnavailable

_MAX_LINE = 64 * 1024 * 1024
_GONE = (anyio.EndOfStream, anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError)

Question = str
"""``alive``, ``ready`` or ``metrics``."""


class NoAnswer(Exception):
    """A process did not answer a question in time, or has ended."""


async def open_link(descriptor: int) -> ByteStream:
    """Return this process's end of the socket pair; its own child processes do not inherit it."""
    own = socket.socket(fileno=descriptor)
    own.set_inheritable(False)
    own.setblocking(False)
    return await SocketStream.from_socket(own)


async def answer_questions(link: ByteStream, health: Health, stop: anyio.Event) -> None:
    """Report the start of the service, and answer questions; set ``stop`` when the link ends."""
    lines = BufferedByteReceiveStream(link)
    try:
        await _send(link, {"started": True})
        while True:
            asked = json.loads(await lines.receive_until(b"\n", _MAX_LINE))
            await _send(link, {"number": asked["number"], "answer": await _answer(asked["question"], health)})
    except _GONE:
        stop.set()


async def _answer(question: Question, health: Health) -> Any:
    if question == "alive":
        return list(await health.why_not_alive())
    if question == "ready":
        return list(await health.why_not_ready())
    try:
        return {"metrics": (await health.metrics()).decode()}
    except MetricsUnavailable as error:
        return {"unavailable": str(error)}


class Questions:
    """The supervisor's side of a link.

    :ivar started: set once the process has started its service
    """

    def __init__(self, link: ByteStream) -> None:
        self.started: anyio.Event = anyio.Event()
        self._link = link
        self._number = 0
        self._waiting: dict[int, anyio.Event] = {}
        self._answers: dict[int, Any] = {}
        self._sending = anyio.Lock()

    async def read(self) -> None:
        """Read messages of the process until it closes its end."""
        lines = BufferedByteReceiveStream(self._link)
        try:
            while True:
                message = json.loads(await lines.receive_until(b"\n", _MAX_LINE))
                if "started" in message:
                    self.started.set()
                elif waiting := self._waiting.get(message["number"]):
                    self._answers[message["number"]] = message["answer"]
                    waiting.set()
        except _GONE:
            return

    async def ask(self, question: Question, timeout: float) -> Any:
        """Return the answer to a question.

        :raises NoAnswer: if no answer comes within ``timeout`` seconds
        """
        self._number += 1
        number = self._number
        answered = self._waiting[number] = anyio.Event()
        try:
            with anyio.move_on_after(timeout):
                async with self._sending:
                    await _send(self._link, {"number": number, "question": question})
                await answered.wait()
                return self._answers[number]
        except _GONE:
            raise NoAnswer("has ended") from None
        finally:
            del self._waiting[number]
            self._answers.pop(number, None)
        raise NoAnswer(f"has not answered in {timeout:g} s")


async def _send(link: ByteStream, value: Mapping[str, Any]) -> None:
    await link.send(json.dumps(value).encode() + b"\n")
