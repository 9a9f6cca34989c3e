"""A class of options declares each at its field; what is derived from that."""

import inspect
import math
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest

from nsq_anyio.errors import InvalidOption
from nsq_anyio.options.declaration import check, declarations, declared, documented
from nsq_anyio.options.kinds import SAME, Choice, Flag, Identify, Integer, Option, Ratio, Seconds, Text, Value


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

    pause: Annotated[float, Seconds("the pause", low=0.5, special=(-1,), go=SAME, identify=Identify())] = 1.5
    part: Annotated[float, Ratio("the part", low=0, high=1)] = 0.25
    size: Annotated[int | None, Integer("the size", low=1, special=(None,), unit="bytes")] = None
    room: Annotated[int, Integer("the room", low=0, unit="bytes", go="other_room")] = 2 * 1024 * 1024
    small: Annotated[int, Integer("the small room", low=0, unit="bytes")] = 64 * 1024
    count: Annotated[int, Integer("the count", low=0, high=9)] = 0
    on: Annotated[bool, Counted("whether it is on", go_opposite="off")] = False
    color: Annotated[Literal["red", "blue"], Choice("the colour", choices=("red", "blue"))] = "red"
    name: Annotated[str, Text("the name", default="the host name")] = field(default_factory=lambda: "host")
    secret: Annotated[str, Text("the secret", is_secret=True)] = field(default="", repr=False)
    made: Annotated[Any, Value("what is made", valid=is_callable, use="a function", spark="")] = print

    def __post_init__(self) -> None:
        check(self)


def test_the_docstring_has_a_line_for_each_option_before_what_it_raises() -> None:
    assert (inspect.getdoc(Example) or "").splitlines() == [
        "An example.",
        "",
        ":param pause: the pause (seconds: 0.5 or more or -1; default 1.5)",
        ":param part: the part (0 to 1; default 0.25)",
        ":param size: the size (bytes: 1 or more or None; default None)",
        ":param room: the room (bytes: 0 or more; default 2 MiB)",
        ":param small: the small room (bytes: 0 or more; default 64 KiB)",
        ":param count: the count (0 to 9; default 0)",
        ":param on: whether it is on (default False)",
        ":param color: the colour ('red' or 'blue'; default 'red')",
        ":param name: the name (default the host name)",
        ":param secret: the secret (default '')",
        f":param made: what is made (default {print!r})",
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
    assert Option("").spark_name("max_in_flight") == "maxInFlight"
    assert Option("", spark="other").spark_name("max_in_flight") == "other"
    assert Identify().key_of("a") == "a"
    assert Identify("b").key_of("a") == "b"


@dataclass
class Undeclared:
    """One field says nothing of itself."""

    pause: Annotated[float, Seconds("the pause", low=0)] = 1.0
    size: Annotated[int, "a size"] = 1


@dataclass
class Plain:
    """A field without an annotation of its own."""

    size: int = 1


@dataclass
class Late:
    """Annotations that are texts, as they are below ``from __future__ import annotations``."""

    pause: "Annotated[float, Seconds('the pause', low=0)]" = 1.0


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
        "Integer(0 to 9)",
        "Counted()",
        "Choice('red' or 'blue')",
        "Text()",
        "Text()",
        "Value()",
    ]
    assert "object at" not in str(inspect.signature(Example))


def test_without_docstrings_nothing_is_added() -> None:
    @dataclass
    class Silent:
        pause: Annotated[float, Seconds("the pause", low=0)] = 1.0

    Silent.__doc__ = None
    assert documented(Silent).__doc__ is None


def test_a_kind_says_what_it_takes() -> None:
    for ask in (lambda: Option("").allowed, lambda: Option("").accepts(1)):
        with pytest.raises(NotImplementedError):
            ask()
    assert Option("").range == ""
