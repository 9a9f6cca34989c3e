"""Who is measured: a table of programs, each with what its client can do."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from . import go_program
from .environments import Unavailable, prepare
from .workloads import Workload

__all__ = ["BARE", "CONTENDERS", "GO", "OURS", "PEERS", "Contender"]

CLIENTS = "tests.benchmarks.clients"

_OURS = frozenset(
    {"consume", "publish", "publish_many", "tls", "snappy", "deflate", "many_nsqds", "latency", "idle"}
)
_PEER = frozenset({"consume", "publish", "publish_many"})


@dataclass(frozen=True, slots=True)
class Contender:
    """A client, on one event loop.

    :ivar prepare: builds or installs what is missing, and returns the command that does a task, to which
        the task is added; raises `Unavailable`
    :ivar can: the needs of workloads that it meets
    :ivar share: the part of a workload's messages that it gets: the slow ones would take minutes for all
    :ivar answers_all: whether every FIN has reached nsqd when it ends
    """

    name: str
    prepare: Callable[[], list[str]]
    can: frozenset[str]
    share: float = 1.0
    answers_all: bool = True
    is_peer: bool = False

    def takes_part(self, workload: Workload) -> bool:
        return workload.needs <= self.can and (workload.peers or not self.is_peer)


def _ours(backend: str) -> Callable[[], list[str]]:
    def command() -> list[str]:
        if backend in {"uvloop", "trio"} and importlib.util.find_spec(backend) is None:
            raise Unavailable(f"{backend} is not installed here")
        return [sys.executable, "-m", f"{CLIENTS}.ours", backend]

    return command


def _peer(name: str, requirements: list[str], *, any_python: bool = False) -> Callable[[], list[str]]:
    def command() -> list[str]:
        python = prepare(name, requirements, any_python=any_python)
        return [str(python), "-m", f"{CLIENTS}.{name}"]

    return command


def _go() -> list[str]:
    path: Path = go_program.build()
    return [str(path)]


def _bare() -> list[str]:
    return [sys.executable, "-m", f"{CLIENTS}.bare_socket"]


OURS = tuple(
    Contender(f"nsq-anyio, {backend}", _ours(backend), _OURS) for backend in ("asyncio", "uvloop", "trio")
)
GO = Contender("go-nsq", _go, _OURS)
PEERS = (
    Contender(
        "asyncnsq",
        # It asks for Python 3.12, and works on 3.11.
        _peer("asyncnsq", ["asyncnsq==2.0.1"], any_python=True),
        _PEER | {"tls", "snappy", "deflate", "many_nsqds"},
        share=0.25,
        answers_all=False,
        is_peer=True,
    ),
    Contender("ansq", _peer("ansq", ["ansq==0.3.0"]), _PEER, share=0.1, answers_all=False, is_peer=True),
    Contender(
        "pynsq",
        _peer("pynsq", ["pynsq==0.9.1"]),
        # With compression it leaves messages unread until they time out.
        _PEER | {"tls", "many_nsqds"},
        share=0.1,
        answers_all=False,
        is_peer=True,
    ),
    Contender(
        "gnsq",
        _peer("gnsq", ["gnsq==1.0.2", "python-snappy"]),
        # Its TLS calls a constructor that Python no longer has.
        _PEER | {"snappy", "deflate", "many_nsqds"},
        share=0.1,
        answers_all=False,
        is_peer=True,
    ),
)
BARE = Contender("bare socket", _bare, _PEER | {"tls"})
CONTENDERS = (*OURS, GO, *PEERS, BARE)
