"""The directive ``.. option-table:: nsq_anyio.ConsumerOptions``: each option, as the class declares it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from importlib import import_module
from types import NoneType
from typing import TYPE_CHECKING, ForwardRef, Literal, get_args, get_origin

from nsq_anyio.options.declaration import declarations, descriptions
from nsq_anyio.options.kinds import Flag, Number

if TYPE_CHECKING:
    from docutils.nodes import Node
    from sphinx.application import Sphinx

SHORT_TYPES = {"PathLike": "path", "Dialer": "function"}
PREFIXES = {"TLSOptions": "tls_"}
"""How the names of options begin where they stand beside others: on the command line and in Spark."""
NOT_IN_SPARK = {"ConsumerOptions"}
"""A partition of Spark decides itself how it consumes."""


def header(options: type) -> list[str]:
    """The columns of the table of a class."""
    optional = [name for name, is_there in _optional_columns(options).items() if is_there]
    return ["option", "type", "unit", "range", "default", "go-nsq", *optional, "description"]


def rows(options: type) -> Iterator[list[str]]:
    """A row for each option, in the order of the fields; cells are reStructuredText."""
    columns = _optional_columns(options)
    prefix = PREFIXES.get(options.__name__, "")
    types = {each.name: each.type for each in fields(options)}
    texts = descriptions(options)
    for each in declarations(options):
        name, option = each.name, each.option
        opposite = option.go_opposite if isinstance(option, Flag) else ""
        row = [
            _literal(name),
            type_text(types[name]),
            option.unit if isinstance(option, Number) else "",
            option.range.replace("'", "``"),
            option.default or _literal(each.default_text.strip("'")),
            _literal(option.go_name(name)) or (f"not {_literal(opposite)}" if opposite else ""),
        ]
        if columns["IDENTIFY"]:
            row.append(_literal(option.identify.key_of(name)) if option.identify else "")
        if columns["Spark"]:
            row.append(_literal(option.spark_name(prefix + name)))
        yield [*row, texts[name]]


def _optional_columns(options: type) -> dict[str, bool]:
    is_told = any(each.option.identify for each in declarations(options))
    return {"IDENTIFY": is_told, "Spark": options.__name__ not in NOT_IN_SPARK}


def _literal(text: str) -> str:
    return f"``{text}``" if text else ""


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


def list_table(options: type) -> str:
    """The table in reStructuredText."""
    lines = [".. list-table::", "   :header-rows: 1", ""]
    for row in [header(options), *rows(options)]:
        lines += [f"   {'* -' if column == 0 else '  -'} {cell}".rstrip() for column, cell in enumerate(row)]
    return "\n".join(lines)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx, without which the tables can be made as well."""
    from sphinx.util.docutils import SphinxDirective

    class OptionTable(SphinxDirective):
        required_arguments = 1

        def run(self) -> list[Node]:
            module, _, name = self.arguments[0].rpartition(".")
            return self.parse_text_to_nodes(list_table(getattr(import_module(module), name)))

    app.add_directive("option-table", OptionTable)
    return {"parallel_read_safe": True}
