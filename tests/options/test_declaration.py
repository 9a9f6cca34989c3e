"""A class of options declares each at its field; what is derived from that."""

import inspect
import math
import py_compile
import sys
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest

from nsq_anyio.errors import InvalidOption
from nsq_anyio.options import ConnectionOptions
from nsq_anyio.options.declaration import check, declarations, declared, descriptions, documented
from nsq_anyio.options.kinds import SAME, Choice, Flag, Identify, Integer, Option, Ratio, Seconds, Text, Value

IMPORTS = """
from dataclasses import dataclass
from typing import Annotated
from nsq_anyio.options.declaration import documented
from nsq_anyio.options.kinds import Seconds
"""


class Counted(Flag):
    """Counts how often it is looked at."""

    looks = 0

    def accepts(self, value: object) -> bool:
        Counted.looks += 1
        return super().accepts(value)


def is_callable(value: object) -> bool:
    return callable(value)


@documented
@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """An example.

    :raises InvalidOption: always
    """

    pause: Annotated[float, Seconds(low=0.5, special=(-1,), go=SAME, identify=Identify())] = 1.5
    """The pause (seconds: 0.5 or more or -1; default 1.5)."""
    part: Annotated[float, Ratio(low=0, high=1)] = 0.25
    """The part (0 to 1; default 0.25)."""
    size: Annotated[int | None, Integer(low=1, special=(None,), unit="bytes")] = None
    """The size (bytes: 1 or more or None; default None)."""
    room: Annotated[int, Integer(low=0, unit="bytes", go="other_room")] = 2 * 1024 * 1024
    """The room (bytes: 0 or more; default 2 MiB)."""
    small: Annotated[int, Integer(low=0, unit="bytes")] = 64 * 1024
    """The small room (bytes: 0 or more; default 64 KiB)."""
    packet: Annotated[int, Integer(low=0, unit="bytes")] = 508
    """The packet (bytes: 0 or more; default 508)."""
    count: Annotated[int, Integer(low=0, high=9)] = 0
    """The count (0 to 9; default 0)."""
    on: Annotated[bool, Counted(go_opposite="off")] = False
    """Whether it is on (default False)."""
    color: Annotated[Literal["red", "blue"], Choice(choices=("red", "blue"))] = "red"
    """The colour ('red' or 'blue'; default 'red')."""
    name: Annotated[str, Text(default="the host name")] = field(default_factory=lambda: "host")
    """The name (default the host name)."""
    secret: Annotated[str, Text(is_secret=True)] = field(default="", repr=False)
    """The secret (default '')."""
    made: Annotated[Any, Value(valid=is_callable, use="a function", spark="")] = print
    """What is made (default <built-in function print>)."""

    def __post_init__(self) -> None:
        check(self)


def test_the_docstring_has_a_line_for_each_option_before_what_it_raises() -> None:
    assert (inspect.getdoc(Example) or "").splitlines() == [
        "An example.",
        "",
        ":param pause: The pause (seconds: 0.5 or more or -1; default 1.5).",
        ":param part: The part (0 to 1; default 0.25).",
        ":param size: The size (bytes: 1 or more or None; default None).",
        ":param room: The room (bytes: 0 or more; default 2 MiB).",
        ":param small: The small room (bytes: 0 or more; default 64 KiB).",
        ":param packet: The packet (bytes: 0 or more; default 508).",
        ":param count: The count (0 to 9; default 0).",
        ":param on: Whether it is on (default False).",
        ":param color: The colour ('red' or 'blue'; default 'red').",
        ":param name: The name (default the host name).",
        ":param secret: The secret (default '').",
        ":param made: What is made (default <built-in function print>).",
        ":raises InvalidOption: always",
    ]


@pytest.mark.parametrize(
    ("name", "bad", "text"),
    [
        ("pause", 0.1, "pause=0.1 is not valid: use 0.5 or more or -1 (seconds)"),
        ("pause", math.inf, "pause=inf is not valid: use 0.5 or more or -1 (seconds)"),
        ("part", 1.5, "part=1.5 is not valid: use 0 to 1"),
        ("part", True, "part=True is not valid: use 0 to 1"),
        ("size", 0, "size=0 is not valid: use 1 or more or None"),
        ("size", 1.0, "size=1.0 is not valid: use 1 or more or None"),
        ("on", 1, "on=1 is not valid: use True or False"),
        ("color", "green", "color='green' is not valid: use 'red' or 'blue'"),
        ("name", None, "name=None is not valid: use a string"),
        ("secret", b"s3cret", "secret is not valid: use a string"),
        ("made", 3, "made=3 is not valid: use a function"),
    ],
)
def test_each_option_is_checked_by_what_it_declares(name: str, bad: object, text: str) -> None:
    options: dict[str, Any] = {name: bad}
    with pytest.raises(InvalidOption) as caught:
        Example(**options)
    assert str(caught.value) == text


def test_each_option_is_looked_at_once_and_the_declarations_are_read_once() -> None:
    before = Counted.looks
    Example()
    Example(on=True)
    assert Counted.looks - before == 2
    assert declared(Example) is declared(Example)


def test_other_names() -> None:
    names = {
        name: (option.go_name(name), option.spark_name(name)) for name, option in declared(Example).items()
    }
    assert names["pause"] == ("pause", "pause")
    assert names["room"] == ("other_room", "room")
    assert names["part"] == ("", "part")
    assert names["made"] == ("", "")
    assert Option().spark_name("max_in_flight") == "maxInFlight"
    assert Option(spark="other").spark_name("max_in_flight") == "other"
    assert Identify().key_of("a") == "a"
    assert Identify("b").key_of("a") == "b"


@dataclass
class Undeclared:
    """One field says nothing of itself."""

    pause: Annotated[float, Seconds(low=0)] = 1.0
    size: Annotated[int, "a size"] = 1


@dataclass
class Plain:
    """A field without an annotation of its own."""

    size: int = 1


@dataclass
class Late:
    """Annotations that are texts, as they are below ``from __future__ import annotations``."""

    pause: "Annotated[float, Seconds(low=0)]" = 1.0


@pytest.mark.parametrize(("options", "name"), [(Undeclared, "size"), (Plain, "size"), (Late, "pause")])
def test_a_field_that_declares_nothing_is_an_error_of_the_class(options: type[object], name: str) -> None:
    with pytest.raises(TypeError, match=rf"^{options.__name__}\.{name} declares nothing: use Annotated\["):
        documented(options)
    with pytest.raises(TypeError):
        list(declarations(options))


def test_help_shows_what_each_kind_takes() -> None:
    shown = [repr(option) for option in declared(Example).values()]
    assert shown == [
        "Seconds(0.5 or more or -1)",
        "Ratio(0 to 1)",
        "Integer(1 or more or None)",
        "Integer(0 or more)",
        "Integer(0 or more)",
        "Integer(0 or more)",
        "Integer(0 to 9)",
        "Counted()",
        "Choice('red' or 'blue')",
        "Text()",
        "Text()",
        "Value()",
    ]


def test_the_signature_has_the_types_alone() -> None:
    parameters = inspect.signature(Example).parameters
    assert str(parameters["size"]) == "size: int | None = None"
    assert not any("Annotated" in str(parameter) for parameter in parameters.values())
    assert str(inspect.signature(ConnectionOptions).parameters["dialer"]) == "dialer: 'Dialer | None' = None"


def test_a_description_leaves_the_facts_to_others() -> None:
    assert descriptions(Example) == {
        "pause": "The pause",
        "part": "The part",
        "size": "The size",
        "room": "The room",
        "small": "The small room",
        "packet": "The packet",
        "count": "The count",
        "on": "Whether it is on",
        "color": "The colour",
        "name": "The name",
        "secret": "The secret",
        "made": "What is made",
    }


def test_without_the_source_there_are_no_descriptions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "compiled_alone.py"
    program.write_text(
        f"{IMPORTS}"
        "@documented\n"
        "@dataclass\n"
        "class Options:\n"
        "    'Some options.'\n"
        "    pause: Annotated[float, Seconds(low=0)] = 1.0\n"
        "    'The pause (seconds: 0 or more; default 1).'\n"
    )
    py_compile.compile(str(program), cfile=str(program.with_suffix(".pyc")))
    program.unlink()
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    options = import_module("compiled_alone").Options
    assert options.__doc__ == "Some options."
    assert descriptions(options) == {}


def test_without_docstrings_nothing_is_added() -> None:
    @dataclass
    class Silent:
        pause: Annotated[float, Seconds(low=0)] = 1.0

    Silent.__doc__ = None
    assert documented(Silent).__doc__ is None


def test_a_kind_says_what_it_takes() -> None:
    for ask in (lambda: Option().allowed, lambda: Option().accepts(1)):
        with pytest.raises(NotImplementedError):
            ask()
    assert Option().range == ""
