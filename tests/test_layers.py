"""Imports point strictly downward."""

import sys

import pytest

from .package_source import MODULES, PACKAGE, Import, Module, unit_of

# What stands on a line imports from the lines above it; only the leaves import each other.
LAYERS = (
    (
        "errors",
        "names",
        "address",
        "child_process",
        "events",
        "exceptions",
        "files",
        "lazy_imports",
        "options",
        "re2_pattern",
        "signals",
        "sqlite_format",
        "terminal_text",
        "unentered",
        "version",
    ),
    ("protocol", "policy", "envelope"),
    ("transport", "http", "tasks"),
    ("connection", "serving"),
    ("deduplication", "discovery", "middleware", "monitoring"),
    ("consumer", "producer"),
    ("sync", "dead_letters", "delaying"),
    ("instrumentation", "embedded", "testing", "service", "admin", "contrib", "cli", "spark", "storage"),
)
LAYER = {unit: layer for layer, units in enumerate(LAYERS) for unit in units}
LEAVES, DECISIONS, EDGES = 0, 1, len(LAYERS) - 1

# The package itself (its __init__) brings in everything that needs no extra to be installed.
PACKAGE_LEAVES_OUT = {"cli", "spark", "storage", "instrumentation", "contrib"}
SIDEWAYS = {
    ("consumer", "producer"),
    ("testing", "embedded"),
    ("service", "instrumentation"),
    ("admin", "instrumentation"),
    ("cli", "admin"),
    ("cli", "service"),
    ("cli", "instrumentation"),
    ("cli", "embedded"),
    ("cli", "spark"),
    ("cli", "storage"),
    ("spark", "storage"),
    ("http", "transport"),
    ("tasks", "transport"),
}

NEWER_STDLIB = {"annotationlib"}
"""Of the standard library of a later Python than the oldest that is supported."""

CORE_REQUIRES = {"anyio", "h11", "httpcore", "httpx", "snappy"}
# Bytes and decisions: no I/O, no clock, no randomness. `now` and the random source are arguments.
NOT_FOR_DECISIONS = {"asyncio", "random", "secrets", "socket", "ssl", "subprocess", "threading", "time"}
# Libraries that decide without I/O too: two for the bytes of a connection, one for expressions of Go.
FOR_DECISIONS = {
    ("nsq_anyio.protocol.codec", "nsq_anyio_codec"),
    ("nsq_anyio.protocol.compression", "snappy"),
    ("nsq_anyio.re2_pattern", "re2"),
}
# The client of a store that only users of its extra open.
FOR_AN_EXTRA = {("nsq_anyio.deduplication.redis_store", "redis")}
# The core runs on AnyIO alone, so nothing there may choose an event loop.
NOT_FOR_THE_CORE = {"asyncio", "selectors"}
# But for these few files, each with its measured worth, or for what only one loop does.
FOR_ONE_EVENT_LOOP = {
    ("nsq_anyio.tasks", "asyncio"),
    ("nsq_anyio.transport.event_loop", "asyncio"),
    ("nsq_anyio.transport.event_loop", "trio"),
    ("nsq_anyio.transport.asyncio_backend", "asyncio"),
    ("nsq_anyio.transport.connect_tcp", "asyncio"),
    ("nsq_anyio.transport.trio_backend", "trio"),
}


def layered(name: str) -> str:
    """The unit that a module belongs to, as the layers name it: ``python -m`` is a way into the commands."""
    unit = unit_of(name)
    return "cli" if unit == "__main__" else unit


def target_of(found: Import) -> str:
    """The unit that is imported; "" for a name of the package itself."""
    is_unit = found.module == PACKAGE and (found.name in LAYER or found.name == "__main__")
    return layered(f"{PACKAGE}.{found.name}" if is_unit else found.module)


def violations(module: Module) -> list[str]:
    """What the imports of ``module`` break, as ``line: reason``."""
    unit = layered(module.name)
    if unit and unit not in LAYER:
        return [f"1: {unit} has no layer: give it one in docs/architecture.md and here"]
    found: list[str] = []
    for each in module.imports():
        top = each.module.partition(".")[0]
        if top == PACKAGE:
            reason = _inside(unit, target_of(each))
        elif each.for_types_only and top in sys.stdlib_module_names:
            reason = None  # the type of an argument, such as random.Random
        elif each.for_types_only and top == "anyio" and LAYER.get(unit) == LEAVES:
            reason = None  # the type of an option: what a dialer returns
        else:
            reason = _outside(unit, module.name, top)
        if reason:
            found.append(f"{each.line}: {reason}")
    return found


def _inside(unit: str, target: str) -> str | None:
    if target == unit:
        return None
    if not unit:
        return f"the package imports {target}" if target in PACKAGE_LEAVES_OUT else None
    if not target:
        # It would bring in the embedded servers, so of the edges only the command line may.
        return None if unit == "cli" else f"{unit} imports the package"
    if target not in LAYER:
        return f"{unit} imports {target}, which has no layer"
    if LAYER[target] < LAYER[unit] or LAYER[target] == LAYER[unit] == LEAVES or (unit, target) in SIDEWAYS:
        return None
    return f"{unit} imports {target}, which is not below it"


def _outside(unit: str, module: str, top: str) -> str | None:
    layer = LAYER.get(unit, EDGES - 1)
    if layer == EDGES or top == "__future__":
        return None
    if (module, top) in FOR_ONE_EVENT_LOOP:
        return None
    is_stdlib = top in sys.stdlib_module_names or top in NEWER_STDLIB
    if layer == DECISIONS and top in NOT_FOR_DECISIONS:
        return f"{unit} imports {top}: it decides without I/O, clock and randomness"
    if layer > DECISIONS and top in NOT_FOR_THE_CORE:
        return f"{unit} imports {top}: the core runs on AnyIO alone"
    if (module, top) in FOR_DECISIONS | FOR_AN_EXTRA:
        return None
    if not is_stdlib and layer <= DECISIONS:
        return f"{unit} imports {top}: it needs the standard library only"
    if not is_stdlib and top not in CORE_REQUIRES:
        return f"{unit or 'the package'} imports {top}: the core does not require it"
    return None


def test_the_modules_are_found() -> None:
    names = {module.name for module in MODULES}
    assert {"nsq_anyio", "nsq_anyio.errors", "nsq_anyio.protocol", "nsq_anyio.protocol.frames"} <= names


def test_imports_point_downward() -> None:
    found = {module.name: violations(module) for module in MODULES}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


# The checker itself, on small sources.


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("nsq_anyio.options", "from .errors import InvalidOption"),
        ("nsq_anyio.errors", "import socket, time"),
        ("nsq_anyio.protocol.frames", "from ..errors import ProtocolError"),
        ("nsq_anyio.protocol.frames", "from .session import State"),
        ("nsq_anyio.protocol.frames", "from . import session"),
        ("nsq_anyio.protocol.frames", "from .. import errors"),
        ("nsq_anyio.protocol.frames", "import nsq_anyio.errors"),
        ("nsq_anyio.protocol.frames", "from __future__ import annotations\nimport struct"),
        ("nsq_anyio.protocol.compression", "import snappy"),
        ("nsq_anyio.protocol.codec", "import nsq_anyio_codec"),
        ("nsq_anyio.re2_pattern", "import re2"),
        ("nsq_anyio.policy.rdy_distribution", "if TYPE_CHECKING:\n    import random"),
        ("nsq_anyio.transport.dial", "import anyio.abc, ssl, time, socket"),
        ("nsq_anyio.http.client", "import httpx\nfrom ..protocol import commands"),
        ("nsq_anyio.http.client", "import http"),
        ("nsq_anyio.consumer.message", "from ..connection.connection import Connection"),
        ("nsq_anyio.embedded.nsqd", "import h11\nfrom ..consumer import consume"),
        ("nsq_anyio.testing.servers", "from ..embedded import nsqd"),
        ("nsq_anyio.cli.main", "import click, asyncio\nfrom .. import embedded, consume"),
        ("nsq_anyio.__main__", "from .cli import main"),
        ("nsq_anyio.spark.source", "import pyspark"),
        ("nsq_anyio.instrumentation.prometheus", "from ..events import Event"),
        ("nsq_anyio.contrib.taskiq.broker", "import asyncio, taskiq\nfrom ...consumer import consume"),
        ("nsq_anyio.instrumentation.opentelemetry.middleware", "import opentelemetry.trace"),
    ],
)
def test_what_is_allowed(name: str, source: str) -> None:
    assert violations(Module(name, source)) == []


@pytest.mark.parametrize(
    ("name", "source", "reason"),
    [
        (
            "nsq_anyio.errors",
            "from .protocol import frames",
            "errors imports protocol, which is not below it",
        ),
        ("nsq_anyio.errors", "import anyio", "errors imports anyio: it needs the standard library only"),
        (
            "nsq_anyio.protocol.a",
            "from ..policy import rdy",
            "protocol imports policy, which is not below it",
        ),
        ("nsq_anyio.policy.a", "from .. import protocol", "policy imports protocol, which is not below it"),
        (
            "nsq_anyio.policy.a",
            "import nsq_anyio.protocol.b",
            "policy imports protocol, which is not below it",
        ),
        ("nsq_anyio.protocol.a", "from ..http.b import c", "protocol imports http, which is not below it"),
        ("nsq_anyio.transport.a", "from ..http import b", "transport imports http, which is not below it"),
        ("nsq_anyio.http.a", "from ..connection import b", "http imports connection, which is not below it"),
        (
            "nsq_anyio.producer.a",
            "from ..consumer import b",
            "producer imports consumer, which is not below it",
        ),
        (
            "nsq_anyio.consumer.a",
            "from ..embedded import b",
            "consumer imports embedded, which is not below it",
        ),
        ("nsq_anyio.consumer.a.b", "from ...cli import c", "consumer imports cli, which is not below it"),
        (
            "nsq_anyio.embedded.a",
            "from ..testing import b",
            "embedded imports testing, which is not below it",
        ),
        ("nsq_anyio.embedded.a", "from ..cli import b", "embedded imports cli, which is not below it"),
        ("nsq_anyio.spark.a", "from ..embedded import b", "spark imports embedded, which is not below it"),
        ("nsq_anyio.testing.a", "from ..cli import b", "testing imports cli, which is not below it"),
        ("nsq_anyio.contrib.a", "from ..service import b", "contrib imports service, which is not below it"),
        (
            "nsq_anyio.consumer.a",
            "from ..contrib import b",
            "consumer imports contrib, which is not below it",
        ),
        ("nsq_anyio.http.a", "from .. import __main__", "http imports cli, which is not below it"),
        ("nsq_anyio.spark.a", "import nsq_anyio as nsq", "spark imports the package"),
        ("nsq_anyio.consumer.a", "from .. import consume", "consumer imports the package"),
        ("nsq_anyio.consumer.a", "from ..extra import b", "consumer imports extra, which has no layer"),
        ("nsq_anyio.extra", "", "extra has no layer: give it one in docs/architecture.md and here"),
        *[
            (
                f"nsq_anyio.{unit}.a",
                f"import {name}",
                f"{unit} imports {name}: it decides without I/O, clock and randomness",
            )
            for unit in LAYERS[DECISIONS]
            for name in ("time", "random", "socket", "asyncio", "threading")
        ],
        *[
            (
                f"nsq_anyio.{unit}.a",
                f"import {name}",
                f"{unit} imports {name}: it needs the standard library only",
            )
            for unit in LAYERS[DECISIONS]
            for name in ("anyio", "trio", "snappy", "httpx")
        ],
        (
            "nsq_anyio.connection.a",
            "import asyncio",
            "connection imports asyncio: the core runs on AnyIO alone",
        ),
        ("nsq_anyio.connection.a", "import trio", "connection imports trio: the core does not require it"),
        ("nsq_anyio.http.a", "from click import echo", "http imports click: the core does not require it"),
    ],
)
def test_what_is_refused(name: str, source: str, reason: str) -> None:
    assert violations(Module(name, source)) == [f"1: {reason}"]


@pytest.mark.parametrize(
    "source",
    [
        "def f():\n    from ..cli import x",
        "if TYPE_CHECKING:\n    from ..cli import x",
        "if x:\n    from ..cli import x",
        "try:\n    from ..cli import x\nexcept ImportError:\n    pass",
        "class A:\n    import nsq_anyio.cli.x",
    ],
)
def test_an_import_counts_wherever_it_stands(source: str) -> None:
    assert violations(Module("nsq_anyio.http.a", source)) == ["2: http imports cli, which is not below it"]


@pytest.mark.parametrize("name", ["cli", "spark", "instrumentation", "contrib"])
def test_the_package_leaves_out_what_needs_extras(name: str) -> None:
    sources = (f"from . import {name}", f"from .{name} import x", f"import nsq_anyio.{name}")
    for source in sources:
        assert violations(Module("nsq_anyio", source, is_package=True)) == [f"1: the package imports {name}"]
    allowed = "from . import embedded, http\nfrom .consumer import x"
    assert violations(Module("nsq_anyio", allowed, is_package=True)) == []
    assert violations(Module("nsq_anyio", "import click", is_package=True)) == [
        "1: the package imports click: the core does not require it"
    ]


def test_types_alone_may_come_from_the_standard_library_only() -> None:
    source = "if TYPE_CHECKING:\n    import random, anyio\nelse:\n    import time"
    assert violations(Module("nsq_anyio.policy.a", source)) == [
        "2: policy imports anyio: it needs the standard library only",
        "4: policy imports time: it decides without I/O, clock and randomness",
    ]


def test_a_leaf_may_name_types_of_anyio() -> None:
    source = "if TYPE_CHECKING:\n    import anyio, httpx\nelse:\n    import anyio"
    assert violations(Module("nsq_anyio.options.a", source)) == [
        "2: options imports httpx: it needs the standard library only",
        "4: options imports anyio: it needs the standard library only",
    ]


def test_relative_imports_of_a_package_start_at_itself() -> None:
    assert violations(Module("nsq_anyio.http", "from .client import x", is_package=True)) == []
    assert violations(Module("nsq_anyio.http", "from ..connection import x", is_package=True)) == [
        "1: http imports connection, which is not below it"
    ]
