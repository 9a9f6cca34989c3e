"""A process that answers for some nsqds, or for all nsqlookupds. It prints its ports first.

It is of no use as a server: it reads requests without bodies, one after the other, and answers them at once.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import parse_qs, urlsplit

from .answers import Cluster, NsqdAnswers, lookup_answers

__all__: list[str] = []

Answer = Callable[[str, dict[str, list[str]]], bytes]

_PAUSE = 1.0
"""Seconds from an answer to when the next one is made, which would take a core from the dashboard."""


class _Nsqd:
    def __init__(self, cluster: Cluster, number: int, sent: list[float]) -> None:
        self._answers = NsqdAnswers(cluster, number)
        self._next = self._answers.stats()
        self._sent = sent
        self._asked: list[dict[str, list[str]]] = []
        self.port = 0

    def answer(self, path: str, query: dict[str, list[str]]) -> bytes:
        if path == "/sent":
            return json.dumps(max(self._sent, default=0.0)).encode()
        if path == "/info":
            return self._answers.info(self.port)
        if path == "/asked":
            return json.dumps(self._asked).encode()
        self._asked.append(query)
        del self._asked[:-100]
        topic, channel = (query.get(name, [""])[0] for name in ("topic", "channel"))
        with_clients = query.get("include_clients", ["true"])[0] == "true"
        if topic or with_clients:
            return self._answers.stats_of(topic, channel, with_clients=with_clients)
        asyncio.get_running_loop().call_later(_PAUSE, self._go_on)
        self._sent.append(time.time())
        del self._sent[:-100]
        return self._next

    def _go_on(self) -> None:
        self._answers.go_on()
        self._next = self._answers.stats()


async def _serve(answer: Answer, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while line := await reader.readline():
            while (await reader.readline()).strip():
                pass
            target = urlsplit(line.split()[1].decode())
            body = answer(target.path, parse_qs(target.query))
            head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


async def _open(answer: Answer) -> int:
    server = await asyncio.start_server(partial(_serve, answer), "127.0.0.1", 0, backlog=1000)
    port: int = server.sockets[0].getsockname()[1]
    _servers.append(server)
    return port


_servers: list[asyncio.Server] = []


async def _main(task: dict[str, Any]) -> None:
    cluster = Cluster(**task["cluster"])
    ports: list[int] = []
    sent: list[float] = []
    for number in task.get("nsqds", ()):
        nsqd = _Nsqd(cluster, number, sent)
        nsqd.port = await _open(nsqd.answer)
        ports.append(nsqd.port)
    for _ in range(task.get("nsqlookupds", 0)):
        answers = lookup_answers(cluster, task["ports"])
        ports.append(await _open(partial(_recorded, answers)))
    sys.stdout.write(f"{json.dumps(ports)}\n")
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)  # until the harness is gone


def _recorded(answers: dict[str, bytes], path: str, _: dict[str, list[str]]) -> bytes:
    return answers.get(path, b"{}")


if __name__ == "__main__":
    asyncio.run(_main(json.loads(sys.argv[1])))
