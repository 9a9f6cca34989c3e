"""The kinds of options: each declares an option's range and its other names, at its field.

::

    poll_interval: Annotated[float, Seconds(low=0.01, go=SAME)] = 60.0

Below the field, a docstring describes the option.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, TypedDict, Unpack

from ..errors import InvalidOption
from .checks import is_integer, is_number, range_text

SAME = "="
"""Stands for the option's own name, if go-nsq or IDENTIFY uses the same; for Spark, in camelCase."""


if TYPE_CHECKING:

    class _More(TypedDict, total=False):
        """The declarations that all kinds of options have in common."""

        go: str
        identify: Identify
        spark: str
        default: str


# Plain classes: as dataclasses they would take as long to import as all options together.
class Identify:
    """How IDENTIFY sends an option to nsqd.

    :param key: the key in the JSON
    :param always: whether the option is sent even if it is empty; if not, nsqd uses its default for an empty
        one
    :param only_with: another option, without which this one is not sent
    """

    def __init__(self, key: str = SAME, *, always: bool = False, only_with: str = "") -> None:
        self.key = key
        self.always = always
        self.only_with = only_with

    def key_of(self, name: str) -> str:
        """Return the JSON key of the option ``name``."""
        return name if self.key == SAME else self.key


class Option:
    """The declaration of an option. Each subclass is a kind of value.

    :param go: go-nsq's name of the option; empty if go-nsq has none
    :param identify: how IDENTIFY sends the option; None if it does not
    :param spark: Spark's name of the option; ``SAME`` for the same name, empty if Spark has none
    :param default: the default in words, if the value alone does not explain it
    """

    has_text: bool = False
    """Whether a text can express the values."""

    def __init__(
        self,
        *,
        go: str = "",
        identify: Identify | None = None,
        spark: str = SAME,
        default: str = "",
    ) -> None:
        self.go = go
        self.identify = identify
        self.spark = spark
        self.default = default

    def __repr__(self) -> str:  # `help` shows it, in the signature of each class of options
        return f"{type(self).__name__}({self.range})"

    def go_name(self, name: str) -> str:
        """Return go-nsq's name of the option ``name``; empty if it has none."""
        return name if self.go == SAME else self.go

    def spark_name(self, name: str) -> str:
        """Return Spark's name of the option ``name``; empty if it has none."""
        first, *others = name.split("_")
        return first + "".join(map(str.capitalize, others)) if self.spark == SAME else self.spark

    @property
    def allowed(self) -> str:
        """The valid values, for errors."""
        raise NotImplementedError

    @property
    def range(self) -> str:
        """The valid values, for the reference; empty if the type alone describes them."""
        return ""

    def accepts(self, value: object) -> bool:
        """Return whether ``value`` is valid for the option."""
        raise NotImplementedError

    def parse(self, text: str, *, go: bool = False) -> object:
        """Return the value that a text expresses; it may be out of range.

        :param go: whether the text is written as for Go's flags, such as ``1m30s`` or ``T``
        :raises InvalidOption: if the text expresses no value of this kind
        """
        raise NotImplementedError

    def check(self, name: str, value: object) -> None:
        """Check a value.

        :raises InvalidOption: for an invalid value; the error names the option, the value and the valid
            values
        """
        if not self.accepts(value):
            raise InvalidOption(f"{name}={value!r} is not valid: use {self.allowed}")


class Number(Option):
    """A number in a range.

    :param special: valid values outside the range, such as -1 or None
    :param unit: the unit of the number, unless the kind implies it
    """

    has_text = True
    number: Callable[[str], float] = float
    unit: str = ""

    def __init__(
        self,
        *,
        low: float,
        high: float = math.inf,
        special: tuple[float | None, ...] = (),
        unit: str = "",
        **more: Unpack[_More],
    ) -> None:
        super().__init__(**more)
        self.low = low
        self.high = high
        self.special = special
        self.unit = unit or self.unit

    @property
    def allowed(self) -> str:
        return f"{self.range} (seconds)" if self.unit == "seconds" else self.range

    @property
    def range(self) -> str:
        return range_text(self.low, self.high, self.special)

    def accepts(self, value: object) -> bool:
        return is_number(value, self.low, self.high, self.special)

    def parse(self, text: str, *, go: bool = False) -> float:  # noqa: ARG002 - numbers are written alike
        try:
            return self.number(text)
        except ValueError:
            raise InvalidOption(f"{text!r} is not a number") from None


class Seconds(Number):
    """A duration."""

    unit = "seconds"

    def parse(self, text: str, *, go: bool = False) -> float:
        if not go:
            return super().parse(text)
        from .go_texts import duration  # noqa: PLC0415 - see there

        if not text.startswith("-") or -1 not in self.special:
            return duration(text)
        if text != "-1":
            duration(text.removeprefix("-"))  # rejects anything but a duration, such as -nan
        return -1.0


class Ratio(Number):
    """A fraction, such as 0.3."""


class Integer(Number):
    """A whole number."""

    number: Callable[[str], float] = int

    def accepts(self, value: object) -> bool:
        return is_integer(value, self.low, self.high, self.special)


class Flag(Option):
    """True or False.

    :param go_opposite: go-nsq's name of an option with the opposite meaning
    """

    has_text = True

    def __init__(self, *, go_opposite: str = "", **more: Unpack[_More]) -> None:
        super().__init__(**more)
        self.go_opposite = go_opposite

    @property
    def allowed(self) -> str:
        return "True or False"

    def accepts(self, value: object) -> bool:
        return isinstance(value, bool)

    def parse(self, text: str, *, go: bool = False) -> bool:
        if go:
            from .go_texts import boolean  # noqa: PLC0415 - see there

            return boolean(text)
        word = text.strip().lower()
        if word not in {"true", "false"}:
            raise InvalidOption(f"{text!r} is not a boolean")
        return word == "true"


class Choice(Option):
    """One of a few words.

    :param choices: the words
    :param function: a description of the function that may be given in place of a word; empty if none may
    """

    has_text = True

    def __init__(self, *, choices: tuple[str, ...], function: str = "", **more: Unpack[_More]) -> None:
        super().__init__(**more)
        self.choices = choices
        self.function = function

    @property
    def allowed(self) -> str:
        *others, last = [*map(repr, self.choices), *filter(None, [self.function])]
        return f"{', '.join(others)} or {last}"

    @property
    def range(self) -> str:
        return self.allowed

    def accepts(self, value: object) -> bool:
        return value in self.choices or (bool(self.function) and callable(value))

    def parse(self, text: str, *, go: bool = False) -> str:
        known = {} if go else {choice.lower(): choice for choice in self.choices}
        return known.get(text.strip().lower(), text)


class Value(Option):
    """A value that only code can set: a function, or an object of another library.

    :param valid: returns whether a value is valid
    :param use: the valid values, for errors
    """

    def __init__(self, *, valid: Callable[[object], bool], use: str, **more: Unpack[_More]) -> None:
        super().__init__(**more)
        self.valid = valid
        self.use = use

    @property
    def allowed(self) -> str:
        return self.use

    def accepts(self, value: object) -> bool:
        return self.valid(value)


def _is_string(value: object) -> bool:
    return isinstance(value, str)


class Text(Value):
    """A name, a path or a secret.

    :param is_secret: whether errors must not show the value
    """

    has_text = True

    def __init__(
        self,
        *,
        valid: Callable[[object], bool] = _is_string,
        use: str = "a string",
        is_secret: bool = False,
        **more: Unpack[_More],
    ) -> None:
        super().__init__(valid=valid, use=use, **more)
        self.is_secret = is_secret

    def check(self, name: str, value: object) -> None:
        if self.is_secret and not self.accepts(value):
            raise InvalidOption(f"{name} is not valid: use {self.allowed}")
        super().check(name, value)

    def parse(self, text: str, *, go: bool = False) -> str:
        """Return the text, which may be empty only with ``go``."""
        if not text and not go:
            raise InvalidOption("the text is empty")
        return text
