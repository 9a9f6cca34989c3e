"""Each field of a consumer's objects has one owner: nobody else writes it."""

import ast
import dataclasses
from pathlib import Path

import pytest

import nsq_anyio.consumer
from nsq_anyio.consumer.statistics import Counters

FILES = sorted(Path(nsq_anyio.consumer.__file__).parent.glob("*.py"))

# What a file writes without being its class: AnyIO's settings, and plain records of one writer.
RECORDS = {
    ("distribution.py", "self._limiter.total_tokens"),
    *{
        ("in_flight.py", f"self.counters.{field.name}")
        for field in dataclasses.fields(Counters)
        if field.type == "int"
    },
    ("in_flight.py", "message._arrival"),  # the delegate moves the deadline
    ("in_flight.py", "found._arrival"),
    ("inbox.py", "stop.reached"),
    ("in_flight.py", "message._response"),  # the delegate notes an answer that comes too late
    ("message.py", "message._response"),  # in a function that is part of the class
    ("workers.py", "self._handling.deadline"),
    ("workers.py", "worker.batch"),
    ("workers.py", "worker.message"),
    ("workers.py", "worker.scope"),
    ("wrapping.py", "message._is_wrapped"),  # the middleware's own subclass of `Message`
}


def written_elsewhere(source: str) -> set[str]:
    """The attributes that are assigned or deleted on anything but ``self``."""
    return {
        ast.unparse(node)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store | ast.Del)
        and not (isinstance(node.value, ast.Name) and node.value.id == "self")
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_only_its_owner_writes_a_field(path: Path) -> None:
    written = written_elsewhere(path.read_text(encoding="utf-8"))
    assert {(path.name, name) for name in written} - RECORDS == set()


def test_no_exception_is_left_over() -> None:
    written = {(path.name, name) for path in FILES for name in written_elsewhere(path.read_text("utf-8"))}
    assert written == RECORDS


def test_what_counts_as_writing() -> None:
    source = "self.a = 1\nb.c = 1\nd.e += 1\ndel f.g\nfor h.i in x: pass\nself.j.k = y\nprint(l.m)"
    assert written_elsewhere(source) == {"b.c", "d.e", "f.g", "h.i", "self.j.k"}
