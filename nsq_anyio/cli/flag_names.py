"""Error texts of the package, with flags in place of Python's parameters and options."""

from __future__ import annotations

import re

import click

_OPTIONS = re.compile(r"\b(?:Connection|TLS)Options\([^)]+\)")
_VALUE = re.compile(r"(?<![\w-])([a-z][a-z_]+)=('[^']*'|[^\s,;:)]+)")


def with_flags(error: BaseException) -> str:
    """Return the text of an error of this package, with the running command's flags for Python's options."""
    text = str(error)
    context = click.get_current_context(silent=True)
    if context is None:
        return text
    flags = {
        str(each.name): each
        for each in context.command.params
        if isinstance(each, click.Option) and each.opts[0].startswith("--")
    }
    pairs = [
        (f"--{side}-opt", str(pair).partition(",")[0], str(pair))
        for side in ("consumer", "producer")
        for pair in context.params.get(f"{side}_opt", ())
    ]

    def flag_of(name: str, value: str = "") -> click.Option | None:
        # Several flags may set options of this name, such as the CA files for nsqd and for https. The error
        # is about the flag with this value.
        given = (
            flag
            for key, flag in flags.items()
            if key.endswith(f"_{name}") and repr(context.params.get(key)) == value
        )
        return flags.get(name) or next(given, None) or flags.get(f"tls_{name}")

    def options(found: re.Match[str]) -> str:
        named = [flag_of(name) for name in re.findall(r"(\w+)=", found[0])]
        return " and ".join(flag.opts[0] for flag in named if flag) if all(named) else found[0]

    def value(found: re.Match[str]) -> str:
        for flag, key, pair in pairs:
            if key == found[1]:
                return f"{flag} {pair}"
        option = flag_of(found[1], found[2])
        if option is None:
            return found[0]
        return option.opts[0] if option.is_flag else f"{option.opts[0]} {found[2]}"

    return _VALUE.sub(value, _OPTIONS.sub(options, text))
