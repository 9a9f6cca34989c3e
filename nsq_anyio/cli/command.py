"""The base of the commands that work with NSQ: common flags, config file, environment, log, exit codes."""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import click

from ..errors import InvalidOption
from ..version import VERSION
from .backend import BACKENDS, default_backend
from .config_file import config_option
from .flag_names import with_flags

_Command = TypeVar("_Command", bound=Callable[..., Any])

_LOG_LEVELS = ("debug", "info", "warning", "warn", "error", "critical", "fatal")
"""The values of ``--log-level``; ``warn`` and ``fatal`` are the Go tools' words."""

_SINGLE_DASH = re.compile(r"-[a-zA-Z]([a-zA-Z0-9-]+(=.*)?|=.*)", re.DOTALL)


def with_two_dashes(word: str) -> str:
    """Return ``--long-flag`` for ``-long-flag``, and any other word as it is."""
    return f"-{word}" if _SINGLE_DASH.fullmatch(word) else word


class GoCommand(click.Command):
    """A command that also accepts Go's spelling of long flags, ``-long-flag``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        return super().parse_args(ctx, list(self._with_two_dashes(args)))

    def _with_two_dashes(self, args: Iterable[str]) -> Iterator[str]:
        """Rewrite long flags for click; leave values, and short flags such as ``-n1``, unchanged."""
        options = {flag: each for each in self.params if isinstance(each, click.Option) for flag in each.opts}
        words = iter(args)
        for word in words:
            if word == "--":
                yield word
                break
            name = word.partition("=")[0]
            is_long = _SINGLE_DASH.fullmatch(word) and (f"-{name}" in options or word[:2] not in options)
            flag = f"-{word}" if is_long else word
            yield flag
            option = options.get(flag)
            # A flag that may stand alone, such as --print-topic, takes a value only after "=".
            if option is not None and not option.is_flag and not _may_stand_alone(option):
                yield from itertools.islice(words, 1)
        yield from words


def _may_stand_alone(option: click.Option) -> bool:
    """Return whether the option may be given without a value, like Go's booleans."""
    return isinstance(option.flag_value, str)


class UtilityCommand(GoCommand):
    """A command for NSQ: accepts flags in Go's style, and reports an invalid value in one line.

    The environment variable ``NSQ_ANYIO_<COMMAND>_<FLAG>`` sets a flag. A flag with several long names has a
    variable for each.
    """

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if parent is not None and parent.auto_envvar_prefix and info_name:
            self._name_variables(f"{parent.auto_envvar_prefix}_{_constant(info_name)}")
        return super().make_context(info_name, args, parent, **extra)

    def _name_variables(self, prefix: str) -> None:
        """Name each variable after its flag; click would name it after the function's parameter."""
        for option in self.params:
            if isinstance(option, click.Option) and option.allow_from_autoenv and option.envvar is None:
                flags = [flag.lstrip("-") for flag in option.opts if len(flag) > len("-n")]
                option.envvar = [f"{prefix}_{_constant(flag)}" for flag in flags]

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except InvalidOption as error:
            raise click.UsageError(with_flags(error), ctx) from error


def _constant(name: str) -> str:
    return name.replace("-", "_").upper()


def backend_option(command: _Command) -> _Command:
    """Add ``--backend`` to a command."""
    return click.option(
        "--backend",
        type=click.Choice(BACKENDS),
        default=default_backend,
        show_default="uvloop where it is installed, else asyncio",
        help="The event loop to run on.",
    )(command)


def command_flags(command: _Command) -> _Command:
    """Add ``--config``, ``--backend``, ``--log-level``, ``--log-format`` and ``--version``.

    Logging is set up before the command runs, by default at level info. Of these flags, the command receives
    only ``backend``.
    """
    return _add(command, "info")


def quiet_command_flags(command: _Command) -> _Command:
    """Add the flags of `command_flags`, with warning as the default level, to a command that people watch."""
    return _add(command, "warning")


def _add(command: _Command, level: str) -> _Command:
    @functools.wraps(command)
    def with_log(*args: Any, log_level: str, log_format: str, **kwargs: Any) -> Any:
        from .logs import set_up_logging  # it imports `logging`, which the help of a command does not need

        set_up_logging(log_level, log_format)
        return command(*args, **kwargs)

    added: Any = with_log
    for option in (
        click.version_option(VERSION, allow_from_autoenv=False, prog_name="nsq-anyio"),
        click.option(
            "--log-format",
            type=click.Choice(["text", "json"]),
            default="text",
            show_default=True,
            help="The format of the log on stderr.",
        ),
        click.option(
            "--log-level",
            type=click.Choice(_LOG_LEVELS, case_sensitive=False),
            default=level,
            show_default=True,
            help="The lowest level to log.",
        ),
        backend_option,
        config_option,
    ):
        added = option(added)
    return added  # type: ignore[no-any-return]
