"""`dir()` of a documented class, and the editor, show what the reference documents, and nothing else."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from textwrap import dedent

import pytest

from .generated_pages import DOCS, docs_module
from .package_source import PACKAGE

api = docs_module("api")

_BLOCK = re.compile(r"<!-- reference\n(.*?)-->", re.DOTALL)
_IN_DOCSTRING = re.compile(r"^\s*:(?:ivar|cvar|param) (\w+):|``(\w+)``", re.MULTILINE)

_READ_JSON = (
    *("AuthReply", "ChannelStats", "ClientStats", "IdentifyReply", "Latency", "Lookup", "NsqdInfo"),
    *("NsqlookupdInfo", "Percentile", "Producer", "Registration", "Stats", "TopicStats"),
)
_CHANNELS = {"assert_published", "messages", "publish", "tap", "wait_for_depth", "wait_until_empty"}

ALLOWED: dict[str, set[str]] = {
    **{name: {"parse", "read"} for name in _READ_JSON},
    "AdminOptions": {"base", "config_network"},
    "AuthState": {"allows"},
    "Authorization": {"allows"},
    "Cluster": _CHANNELS,  # documented at `Nsqd`
    "NSQCollector": {"collect", "describe", "measured"},  # the first two are prometheus_client's
    "NsqBroker": {"formatter", "listeners"},  # taskiq's
    "NsqdOptions": {"limits", "requires_auth", "requires_tls"},
    "PlainChannels": {*_CHANNELS, "call", "channels"},
    "Service": {"run", "why_not_alive", "why_not_ready"},
    "VirtualTimeLoop": {"jump"},
}
"""What a class shows without documenting it."""


def documented() -> dict[str, set[str]]:
    """The classes of the package that the reference has a heading for, and the members that it shows."""
    found: dict[str, set[str]] = defaultdict(set)
    for page in sorted((DOCS / "reference").glob("*.md")):
        for lines in _BLOCK.findall(page.read_text("utf-8")):
            for line in lines.splitlines():
                for entry in api.entries(line, 2):
                    owner, _, name = entry.name.rpartition(".")
                    found[owner].add(name)
                    found[entry.name].update(entry.values)
    del found["nsq_anyio.embedded.Topic"]  # the page names what is for users
    if find_spec("pyspark") is None:  # the session `spark` looks at its classes
        found = {name: members for name, members in found.items() if ".spark" not in name}
    return {name: members for name, members in found.items() if isinstance(named(name), type)}


def named(name: str) -> object:
    """What a dotted name of the package means; None for a name of another package."""
    owner, _, last = name.rpartition(".")
    if api.path_of(name) is not None or not owner.startswith(PACKAGE):
        return None
    return getattr(import_module(owner) if api.path_of(owner) else named(owner), last)


DOCUMENTED = documented()


def of_package(cls: type) -> list[type]:
    return [each for each in cls.__mro__ if each.__module__.startswith(PACKAGE)]


def shown(cls: type) -> set[str]:
    """What an editor offers: attributes of the class, and what its methods set on ``self``."""
    names = set(dir(cls))
    for each in of_package(cls):
        names.update(set_on_self(inspect.getsource(each)))
    return {name for name in names if not name.startswith("_")}


def set_on_self(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(dedent(source))):
        match node:
            case ast.Attribute(attr=name, ctx=ast.Store(), value=ast.Name(id="self")):
                yield name
            case _:
                pass


def said(cls: type) -> set[str]:
    """What docstrings of a class and its bases describe, its fields, and what it has from elsewhere."""
    names: set[str] = set()
    for each in cls.__mro__:
        if not each.__module__.startswith(PACKAGE):
            names.update(dir(each))
            continue
        names.update(*_IN_DOCSTRING.findall(each.__doc__ or ""))
        names.update(vars(each).get("_fields", ()))
        if dataclasses.is_dataclass(each):
            names.update(field.name for field in dataclasses.fields(each))
    return names


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_class_shows_what_is_documented(name: str) -> None:
    cls = named(name)
    assert isinstance(cls, type)
    pages = {
        member for each, members in DOCUMENTED.items() if issubclass(cls, as_type(each)) for member in members
    }
    assert shown(cls) - pages - said(cls) - ALLOWED.get(cls.__name__, set()) == set(), (
        "begin it with an underscore, or document it"
    )


def as_type(name: str) -> type:
    cls = named(name)
    assert isinstance(cls, type)
    return cls


def test_the_classes_are_found() -> None:
    assert DOCUMENTED.keys() >= {"nsq_anyio.Message", "nsq_anyio.sync.Consumer", "nsq_anyio.errors.NSQError"}
    assert DOCUMENTED["nsq_anyio.Consumer"] >= {"run", "max_in_flight"}
