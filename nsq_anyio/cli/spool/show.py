"""Spools as tables, lines and JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.table import Table

    from ...spark.spool_admin import SpoolInfo
    from ...spark.spool_errors import SpoolError

_SHOWN_OF_UUID = 8


def report(done: str, spools: Sequence[tuple[SpoolInfo, int]], *, as_json: bool) -> None:
    """Print, for each spool, how many rows were put back or deleted."""
    if as_json:
        click.echo(json.dumps([{**fields(info), "rows": rows} for info, rows in spools]))
    for info, rows in () if as_json else spools:
        click.echo(f"{done} {rows:,} rows of {_source(info)}, spool {info.uuid}")


def report_damage(info: SpoolInfo) -> None:
    """Report the damage to a spool on stderr."""
    for error in info.damage:
        click.echo(f"{error.path}: {_damage(error)}", err=True)


def _damage(error: SpoolError) -> str:
    """Return the error's text without its remedy, which is meant for a query."""
    return getattr(error, "damage", error.reason)


def _source(info: SpoolInfo) -> str:
    return f"{info.topic}/{info.channel}" if info.topic else "an unknown topic"


def fields(info: SpoolInfo) -> dict[str, Any]:
    """Return the fields of a spool for JSON."""
    return {
        "uuid": info.uuid,
        "state": info.state,
        "topic": info.topic,
        "channel": info.channel,
        "created": info.created.isoformat() if info.created else None,
        "epochs": info.epochs,
        "rows": info.rows,
        "bytes": info.bytes,
        "last_written": info.last_written.isoformat() if info.last_written else None,
        "user": info.user,
        "damage": [{"path": error.path, "reason": _damage(error)} for error in info.damage],
    }


def table(infos: Sequence[SpoolInfo]) -> Table:
    """Return a table with a row per spool."""
    from ..display import new_table

    names = ("spool", "topic/channel", "state", "last written (UTC)")
    shown = new_table(*names, numbers=["rows", "bytes"], whole=["spool"])
    for info in infos:
        last_written = f"{info.last_written:%Y-%m-%d %H:%M:%S}" if info.last_written else "never"
        shown.add_row(
            info.uuid[:_SHOWN_OF_UUID],
            _source(info),
            info.state,
            last_written,
            f"{info.rows:,}",
            f"{info.bytes:,}",
        )
    return shown
