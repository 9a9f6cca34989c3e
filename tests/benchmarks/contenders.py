"""Who is measured: a table of programs, each with what its client can do."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from ..real_servers import RealServerError, program
from . import go_program
from .environments import Unavailable, prepare
from .interpreter import MeasuredPython
from .workloads import Workload

Loop = Literal["asyncio", "uvloop", "trio"]
LOOPS: tuple[Loop, ...] = ("asyncio", "uvloop", "trio")

CLIENTS = "tests.benchmarks.clients"

_CLIENT = frozenset(
    {"consume", "publish", "publish_many", "tls", "snappy", "deflate", "many_nsqds", "latency", "idle"}
)
_PEER = frozenset({"consume", "publish", "publish_many"})
_OURS = _CLIENT | {"to-http"}
# What is not main is measured without the codec.
_WITH_CODEC = frozenset({"consume", "latency", "publish", "publish_many", "to-http", "many_nsqds"})


@dataclass(frozen=True, slots=True)
class Contender:
    """A client, on one event loop.

    :ivar prepare: builds or installs what is missing for the measured Python, and returns the command that
        does a task, to which the task is added; raises `Unavailable`
    :ivar can: the needs of workloads that it meets
    :ivar environment: variables that it is run with
    :ivar share: the part of a workload's messages that it gets: the slow ones would take minutes for all
    :ivar answers_all: whether every FIN has reached nsqd when it ends
    :ivar peer: whether it is another Python client
    :ivar codec: whether it is this package with the compiled codec
    """

    name: str
    prepare: Callable[[MeasuredPython], list[str]]
    can: frozenset[str]
    environment: dict[str, str] = field(default_factory=dict[str, str])
    share: float = 1.0
    answers_all: bool = True
    peer: bool = False
    codec: bool = False

    def takes_part(self, workload: Workload) -> bool:
        """Whether it is measured at the workload."""
        if (self.peer and not workload.peers) or (self.codec and not workload.main):
            return False
        return workload.needs <= self.can

    @property
    def title(self) -> str:
        """What the tables of the documentation call it."""
        return self.name.removeprefix("nsq-anyio, ").replace("trio", "Trio")


def ours(loop: Loop, *, codec: bool = False) -> str:
    """Return the name of this package on an event loop."""
    return f"nsq-anyio, {loop}" + (" with the codec" if codec else "")


def _ours(loop: Loop, *, codec: bool) -> Contender:
    def command(python: MeasuredPython) -> list[str]:
        _require(loop, python)
        if codec and not python.has_codec:
            raise Unavailable("the compiled codec (nsq_anyio_codec) is not installed")
        return [python.path, "-m", f"{CLIENTS}.ours", loop]

    return Contender(
        ours(loop, codec=codec),
        command,
        _OURS & _WITH_CODEC if codec else _OURS,
        environment={"NSQ_ANYIO_CODEC": "compiled" if codec else "python"},
        codec=codec,
    )


def _peer(name: str, requirements: list[str]) -> Callable[[MeasuredPython], list[str]]:
    def command(python: MeasuredPython) -> list[str]:
        own = prepare(name, requirements, python)
        return [str(own), "-m", f"{CLIENTS}.{name}"]

    return command


def _go(python: MeasuredPython) -> list[str]:
    go_program.build()
    return [str(go_program.CLIENT)]


def _nsq_to_http(python: MeasuredPython) -> list[str]:
    try:
        return [sys.executable, "-m", f"{CLIENTS}.forward", str(program("nsq_to_http"))]
    except RealServerError as error:
        raise Unavailable(str(error)) from error


def _bare(python: MeasuredPython) -> list[str]:
    return [python.path, "-m", f"{CLIENTS}.bare_socket"]


def _require(loop: Loop, python: MeasuredPython) -> None:
    if loop != "asyncio" and loop not in python.packages:
        raise Unavailable(f"{loop} is not installed")


def _bare_loop(loop: Loop) -> Contender:
    def command(python: MeasuredPython) -> list[str]:
        _require(loop, python)
        return [python.path, "-m", f"{CLIENTS}.bare_loop", loop]

    return Contender(f"bare {loop}", command, _PEER)


OURS = tuple(_ours(loop, codec=codec) for loop in LOOPS for codec in (False, True))
GO = Contender("go-nsq", _go, _CLIENT)
NSQ_TO_HTTP = Contender("nsq_to_http", _nsq_to_http, frozenset({"to-http"}))
PEERS = (
    Contender(
        "asyncnsq",
        _peer("asyncnsq", ["asyncnsq==2.0.1"]),
        _PEER | {"tls", "snappy", "deflate", "many_nsqds"},
        share=0.25,
        answers_all=False,
        peer=True,
    ),
    Contender("ansq", _peer("ansq", ["ansq==0.3.0"]), _PEER, share=0.1, answers_all=False, peer=True),
    Contender(
        "pynsq",
        _peer("pynsq", ["pynsq==0.9.1"]),
        # With compression it leaves messages unread until they time out.
        _PEER | {"tls", "many_nsqds"},
        share=0.1,
        answers_all=False,
        peer=True,
    ),
    Contender(
        "gnsq",
        _peer("gnsq", ["gnsq==1.0.2", "python-snappy"]),
        # Its TLS calls a constructor that Python no longer has.
        _PEER | {"snappy", "deflate", "many_nsqds"},
        share=0.1,
        answers_all=False,
        peer=True,
    ),
)
BARE = Contender("bare socket", _bare, _PEER | {"tls"})
_BARE_LOOPS = (_bare_loop("asyncio"), _bare_loop("trio"))
CONTENDERS = (*OURS, GO, NSQ_TO_HTTP, *PEERS, *_BARE_LOOPS, BARE)
SHOWN = (*(each for each in OURS if "uvloop" not in each.name), GO, *PEERS)
"""Whom the page for users shows: measured unless others are asked for."""
