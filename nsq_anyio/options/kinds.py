"""What is declared of an option at its field: its kind, its range, its other names and its description.

::

    poll_interval: Annotated[float, Seconds("the time between polls", low=0.01, go=SAME)] = 60.0
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, TypedDict, Unpack

from ..checks import is_integer, is_number, range_text
from ..errors import InvalidOption

__all__ = [
    "SAME",
    "Choice",
    "Flag",
    "Identify",
    "Integer",
    "Number",
    "Option",
    "Ratio",
    "Seconds",
    "Text",
    "Value",
]

SAME = "="
"""The option's own name, where go-nsq or IDENTIFY have the same; for Spark, that name in camelCase."""


if TYPE_CHECKING:

    class _More(TypedDict, total=False):
        """What an option of any kind can declare besides its description."""

        go: str
        identify: Identify
        spark: str
        default: str


# Plain classes: as dataclasses they would take as long to import as all options together.
class Identify:
    """How IDENTIFY tells an option to nsqd.

    :param key: in the JSON
    :param always: whether it is sent even when it is empty; otherwise nsqd takes its own default then
    :param only_with: another option without which it is not sent
    """

    def __init__(self, key: str = SAME, *, always: bool = False, only_with: str = "") -> None:
        self.key = key
        self.always = always
        self.only_with = only_with

    def key_of(self, name: str) -> str:
        """The key of the option with that name."""
        return name if self.key == SAME else self.key


class Option:
    """What every option declares. The subclasses are the kinds of values.

    :param help: what it is, for the docstring and the reference
    :param go: go-nsq's name for it; empty if go-nsq has none
    :param identify: for an option that nsqd is told
    :param spark: what Spark has for it; ``SAME`` if it takes the option as it is, empty if it has nothing
    :param default: what the default is, in words, where the value does not say so
    """

    def __init__(
        self,
        help: str,
        *,
        go: str = "",
        identify: Identify | None = None,
        spark: str = SAME,
        default: str = "",
    ) -> None:
        self.help = help
        self.go = go
        self.identify = identify
        self.spark = spark
        self.default = default

    def go_name(self, name: str) -> str:
        """What go-nsq calls the option with that name; empty if it has none."""
        return name if self.go == SAME else self.go

    def spark_name(self, name: str) -> str:
        """What Spark calls the option with that name; empty if it has none."""
        first, *others = name.split("_")
        return first + "".join(map(str.capitalize, others)) if self.spark == SAME else self.spark

    @property
    def allowed(self) -> str:
        """What an error names as valid."""
        raise NotImplementedError

    @property
    def range(self) -> str:
        """What the reference names as valid; empty if the type says it all."""
        return ""

    def accepts(self, value: object) -> bool:
        """Whether it can be set to ``value``."""
        raise NotImplementedError

    def check(self, name: str, value: object) -> None:
        """Refuse what it cannot be set to.

        :raises InvalidOption: with the name, the value, and what is allowed
        """
        if not self.accepts(value):
            raise InvalidOption(f"{name}={value!r} is not valid: use {self.allowed}")


class Number(Option):
    """A number in a range.

    :param special: values outside of the range that mean something, such as -1 or None
    :param unit: what is counted, unless the kind says it
    """

    unit: str = ""

    def __init__(
        self,
        help: str,
        *,
        low: float,
        high: float = math.inf,
        special: tuple[float | None, ...] = (),
        unit: str = "",
        **more: Unpack[_More],
    ) -> None:
        super().__init__(help, **more)
        self.low = low
        self.high = high
        self.special = special
        self.unit = unit or self.unit

    @property
    def allowed(self) -> str:
        """See `Option.allowed`."""
        return f"{self.range} (seconds)" if self.unit == "seconds" else self.range

    @property
    def range(self) -> str:
        """See `Option.range`."""
        return range_text(self.low, self.high, self.special)

    def accepts(self, value: object) -> bool:
        """See `Option.accepts`."""
        return is_number(value, self.low, self.high, self.special)


class Seconds(Number):
    """A duration."""

    unit = "seconds"


class Ratio(Number):
    """A part of something else, such as 0.3."""


class Integer(Number):
    """A whole number."""

    def accepts(self, value: object) -> bool:
        """See `Option.accepts`."""
        return is_integer(value, self.low, self.high, self.special)


class Flag(Option):
    """True or False.

    :param go_opposite: go-nsq's name for the opposite, which is true where this is False
    """

    def __init__(self, help: str, *, go_opposite: str = "", **more: Unpack[_More]) -> None:
        super().__init__(help, **more)
        self.go_opposite = go_opposite

    @property
    def allowed(self) -> str:
        """See `Option.allowed`."""
        return "True or False"

    def accepts(self, value: object) -> bool:
        """See `Option.accepts`."""
        return isinstance(value, bool)


class Choice(Option):
    """One of a few words.

    :param choices: the words
    :param function: what function can be given in place of a word; empty if none
    """

    def __init__(
        self, help: str, *, choices: tuple[str, ...], function: str = "", **more: Unpack[_More]
    ) -> None:
        super().__init__(help, **more)
        self.choices = choices
        self.function = function

    @property
    def allowed(self) -> str:
        """See `Option.allowed`."""
        *others, last = [*map(repr, self.choices), *filter(None, [self.function])]
        return f"{', '.join(others)} or {last}"

    @property
    def range(self) -> str:
        """See `Option.range`."""
        return self.allowed

    def accepts(self, value: object) -> bool:
        """See `Option.accepts`."""
        return value in self.choices or (bool(self.function) and callable(value))


class Value(Option):
    """What only code can set: a function, or an object of another library.

    :param valid: whether a value is one
    :param use: what an error names as valid
    """

    def __init__(
        self, help: str, *, valid: Callable[[object], bool], use: str, **more: Unpack[_More]
    ) -> None:
        super().__init__(help, **more)
        self.valid = valid
        self.use = use

    @property
    def allowed(self) -> str:
        """See `Option.allowed`."""
        return self.use

    def accepts(self, value: object) -> bool:
        """See `Option.accepts`."""
        return self.valid(value)


def _is_string(value: object) -> bool:
    return isinstance(value, str)


class Text(Value):
    """A name, a path or a secret.

    :param is_secret: whether the value is never shown, not even a bad one
    """

    def __init__(
        self,
        help: str,
        *,
        valid: Callable[[object], bool] = _is_string,
        use: str = "a string",
        is_secret: bool = False,
        **more: Unpack[_More],
    ) -> None:
        super().__init__(help, valid=valid, use=use, **more)
        self.is_secret = is_secret

    def check(self, name: str, value: object) -> None:
        """See `Option.check`."""
        if self.is_secret and not self.accepts(value):
            raise InvalidOption(f"{name} is not valid: use {self.allowed}")
        super().check(name, value)
