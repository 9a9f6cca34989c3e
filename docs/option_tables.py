"""The tables of options in Markdown: each option, as the class declares it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from types import NoneType
from typing import ForwardRef, Literal, get_args, get_origin

from api import Link, inline
from nsq_anyio.options.declaration import declarations, descriptions
from nsq_anyio.options.kinds import Flag, Number

SHORT_TYPES = {"PathLike": "path", "Dialer": "function"}
PREFIXES = {"TLSOptions": "tls_"}
"""How the names of options begin where they stand beside others: on the command line and in Spark."""
BAR = "\\|"
NOT_IN_SPARK = {"ConsumerOptions"}
"""A partition of Spark decides itself how it consumes."""


def header(options: type) -> list[str]:
    """The columns of the table of a class."""
    optional = [name for name, is_there in _optional_columns(options).items() if is_there]
    return ["option", "default", "values", "description", "go-nsq", *optional]


def rows(options: type, link: Link) -> Iterator[list[str]]:
    """A row for each option, in the order of the fields."""
    columns = _optional_columns(options)
    prefix = PREFIXES.get(options.__name__, "")
    types = {each.name: each.type for each in fields(options)}
    texts = descriptions(options)
    for each in declarations(options):
        name, option = each.name, each.option
        opposite = option.go_opposite if isinstance(option, Flag) else ""
        unit = f", {option.unit}" if isinstance(option, Number) and option.unit else ""
        values = f": {option.range}" if option.range else ""
        row = [
            _literal(name),
            option.default.replace("``", "`") or _literal(each.default_text.strip("'")),
            f"{type_text(types[name])}{unit}{values}".replace("'", "`"),
            inline(texts[name], link),
            _literal(option.go_name(name)) or (f"not {_literal(opposite)}" if opposite else ""),
        ]
        if columns["IDENTIFY"]:
            row.append(_literal(option.identify.key_of(name)) if option.identify else "")
        if columns["Spark"]:
            row.append(_literal(option.spark_name(prefix + name)))
        yield row


def _optional_columns(options: type) -> dict[str, bool]:
    is_told = any(each.option.identify for each in declarations(options))
    return {"IDENTIFY": is_told, "Spark": options.__name__ not in NOT_IN_SPARK}


def _literal(text: str) -> str:
    return f"`{text}`" if text else ""


def type_text(annotation: object) -> str:
    """A type as people say it: ``int | None`` for ``Annotated[int | None, ...]``."""
    kind = get_args(annotation)[0]
    if isinstance(kind, ForwardRef):
        names = kind.__forward_arg__.split(" | ")
    else:
        is_union = get_origin(kind) not in {None, Literal, Callable}
        names = [_type_name(part) for part in (get_args(kind) if is_union else (kind,))]
    return " | ".join(dict.fromkeys(SHORT_TYPES.get(name, name) for name in names))


def _type_name(kind: object) -> str:
    origin = get_origin(kind)
    if origin in {Literal, Callable}:
        return "str" if origin is Literal else "function"
    return "None" if kind is NoneType else (origin or kind).__name__


def table(options: type, link: Link) -> str:
    """The table in Markdown."""
    columns = header(options)
    lines = [columns, ["---"] * len(columns), *rows(options, link)]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', BAR) for cell in line)} |".replace("  ", " ") for line in lines
    )
