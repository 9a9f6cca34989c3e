"""Imports point strictly downward, and no file grows beyond what one reads in one go."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

PACKAGE = "nsq_anyio"
ROOT = Path(__file__).parent.parent / PACKAGE
MAX_LINES = 300

# What stands on a line imports from the lines above it; only the leaves import each other.
LAYERS = (
    (
        "errors",
        "names",
        "address",
        "block",
        "checks",
        "options",
        "events",
        "version",
        "lazy",
        "pattern",
        "unwrapping",
        "durable",
    ),
    ("protocol", "policy"),
    ("transport", "http"),
    ("connection", "serving"),
    ("consumer", "producer"),
    ("sync",),
    ("instrumentation", "embedded", "testing", "cli", "spark"),
)
LAYER = {unit: layer for layer, units in enumerate(LAYERS) for unit in units}
LEAVES, DECISIONS, EDGES = 0, 1, len(LAYERS) - 1

# The package itself (its __init__) brings in everything that needs no extra to be installed.
PACKAGE_LEAVES_OUT = {"cli", "spark", "instrumentation"}
EDGE_TO_EDGE = {("testing", "embedded"), ("cli", "embedded"), ("cli", "spark")}

CORE_REQUIRES = {"anyio", "h11", "httpx", "snappy"}
# Bytes and decisions: no I/O, no clock, no randomness. `now` and the random source are arguments.
NOT_FOR_DECISIONS = {"asyncio", "random", "secrets", "socket", "ssl", "subprocess", "threading", "time"}
# Libraries that decide without I/O too: one for the bytes of a connection, one for expressions of Go.
FOR_DECISIONS = {("nsq_anyio.protocol.compression", "snappy"), ("nsq_anyio.pattern", "re2")}
# The core runs on AnyIO alone, so nothing there may choose an event loop.
NOT_FOR_THE_CORE = {"asyncio", "selectors"}
# But for these few files, each with its measured worth, or for what only one loop does.
FOR_ONE_EVENT_LOOP = {
    ("nsq_anyio.connection.stray", "asyncio"),
    ("nsq_anyio.transport.event_loop", "asyncio"),
    ("nsq_anyio.transport.asyncio_readable", "asyncio"),
    ("nsq_anyio.producer.publication", "asyncio"),
    ("nsq_anyio.producer.publication", "trio"),
}


def unit_of(module: str) -> str:
    """The file or package directly under the package that ``module`` belongs to; "" for the package."""
    unit = module.split(".")[1] if "." in module else ""
    return "cli" if unit == "__main__" else unit


class Import(NamedTuple):
    line: int
    name: str
    for_types_only: bool


def imports(tree: ast.Module, module: str, *, is_package: bool) -> Iterator[Import]:
    """Each import, wherever it stands, with the absolute name of what it imports."""
    for_types = {
        node
        for guard in ast.walk(tree)
        if isinstance(guard, ast.If) and ast.unparse(guard.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}
        for statement in guard.body
        for node in ast.walk(statement)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(node.lineno, alias.name, node in for_types)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                kept = len(parts) - node.level + is_package
                base = ".".join([*parts[:kept], *filter(None, [node.module])])
            for alias in node.names:
                is_unit = base == PACKAGE and (alias.name in LAYER or alias.name == "__main__")
                yield Import(node.lineno, f"{base}.{alias.name}" if is_unit else base, node in for_types)


def violations(module: str, source: str, *, is_package: bool = False) -> list[str]:
    """What the imports of ``module`` break, as ``line: reason``."""
    unit = unit_of(module)
    if unit and unit not in LAYER:
        return [f"1: {unit} has no layer: give it one in DESIGN and here"]
    found: list[str] = []
    for line, name, for_types_only in imports(ast.parse(source), module, is_package=is_package):
        top = name.partition(".")[0]
        if top == PACKAGE:
            reason = _inside(unit, unit_of(name))
        elif for_types_only and top in sys.stdlib_module_names:
            reason = None  # the type of an argument, such as random.Random
        elif for_types_only and top == "anyio" and LAYER.get(unit) == LEAVES:
            reason = None  # the type of an option: what a dialer returns
        else:
            reason = _outside(unit, module, top)
        if reason:
            found.append(f"{line}: {reason}")
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
    if (
        LAYER[target] < LAYER[unit]
        or LAYER[target] == LAYER[unit] == LEAVES
        or (unit, target) in EDGE_TO_EDGE
    ):
        return None
    return f"{unit} imports {target}, which is not below it"


def _outside(unit: str, module: str, top: str) -> str | None:
    layer = LAYER.get(unit, EDGES - 1)
    if layer == EDGES or top == "__future__":
        return None
    if (module, top) in FOR_ONE_EVENT_LOOP:
        return None
    is_stdlib = top in sys.stdlib_module_names
    if layer == DECISIONS and top in NOT_FOR_DECISIONS:
        return f"{unit} imports {top}: it decides without I/O, clock and randomness"
    if layer > DECISIONS and top in NOT_FOR_THE_CORE:
        return f"{unit} imports {top}: the core runs on AnyIO alone"
    if (module, top) in FOR_DECISIONS:
        return None
    if not is_stdlib and layer <= DECISIONS:
        return f"{unit} imports {top}: it needs the standard library only"
    if not is_stdlib and top not in CORE_REQUIRES:
        return f"{unit or 'the package'} imports {top}: the core does not require it"
    return None


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = sorted(ROOT.rglob("*.py"))


def test_the_modules_are_found() -> None:
    names = {module_name(path) for path in MODULES}
    assert {"nsq_anyio", "nsq_anyio.errors", "nsq_anyio.protocol", "nsq_anyio.protocol.frames"} <= names


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_imports_point_downward(path: Path) -> None:
    is_package = path.name == "__init__.py"
    assert violations(module_name(path), path.read_text(encoding="utf-8"), is_package=is_package) == []


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_a_file_is_read_in_one_go(path: Path) -> None:
    lines = len(path.read_text(encoding="utf-8").splitlines())
    assert lines <= MAX_LINES, f"{lines} lines: split it by concept"


# The checker itself, on small sources.


@pytest.mark.parametrize(
    ("module", "source"),
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
        ("nsq_anyio.pattern", "import re2"),
        ("nsq_anyio.policy.rdy", "if TYPE_CHECKING:\n    import random"),
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
    ],
)
def test_what_is_allowed(module: str, source: str) -> None:
    assert violations(module, source) == []


@pytest.mark.parametrize(
    ("module", "source", "reason"),
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
        ("nsq_anyio.http.a", "from ..transport import b", "http imports transport, which is not below it"),
        ("nsq_anyio.http.a", "from ..connection import b", "http imports connection, which is not below it"),
        (
            "nsq_anyio.consumer.a",
            "from ..producer import b",
            "consumer imports producer, which is not below it",
        ),
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
        ("nsq_anyio.http.a", "from .. import __main__", "http imports cli, which is not below it"),
        ("nsq_anyio.spark.a", "import nsq_anyio as nsq", "spark imports the package"),
        ("nsq_anyio.consumer.a", "from .. import consume", "consumer imports the package"),
        ("nsq_anyio.consumer.a", "from ..extra import b", "consumer imports extra, which has no layer"),
        ("nsq_anyio.extra", "", "extra has no layer: give it one in DESIGN and here"),
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
def test_what_is_refused(module: str, source: str, reason: str) -> None:
    assert violations(module, source) == [f"1: {reason}"]


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
    assert violations("nsq_anyio.http.a", source) == ["2: http imports cli, which is not below it"]


@pytest.mark.parametrize("name", ["cli", "spark", "instrumentation"])
def test_the_package_leaves_out_what_needs_extras(name: str) -> None:
    sources = (f"from . import {name}", f"from .{name} import x", f"import nsq_anyio.{name}")
    for source in sources:
        assert violations("nsq_anyio", source, is_package=True) == [f"1: the package imports {name}"]
    assert (
        violations("nsq_anyio", "from . import embedded, http\nfrom .consumer import x", is_package=True)
        == []
    )
    assert violations("nsq_anyio", "import click", is_package=True) == [
        "1: the package imports click: the core does not require it"
    ]


def test_types_alone_may_come_from_the_standard_library_only() -> None:
    source = "if TYPE_CHECKING:\n    import random, anyio\nelse:\n    import time"
    assert violations("nsq_anyio.policy.a", source) == [
        "2: policy imports anyio: it needs the standard library only",
        "4: policy imports time: it decides without I/O, clock and randomness",
    ]


def test_a_leaf_may_name_types_of_anyio() -> None:
    source = "if TYPE_CHECKING:\n    import anyio, httpx\nelse:\n    import anyio"
    assert violations("nsq_anyio.options.a", source) == [
        "2: options imports httpx: it needs the standard library only",
        "4: options imports anyio: it needs the standard library only",
    ]


def test_relative_imports_of_a_package_start_at_itself() -> None:
    assert violations("nsq_anyio.http", "from .client import x", is_package=True) == []
    assert violations("nsq_anyio.http", "from ..connection import x", is_package=True) == [
        "1: http imports connection, which is not below it"
    ]
