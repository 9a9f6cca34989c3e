"""The ports of the servers of ``up --data-path``, which stay the same from run to run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, cast

import click

__all__ = ["Ports", "load_ports", "save_ports"]

_MAX_PORT = 65_535


class Ports(NamedTuple):
    """The ports of one server; 0 takes a free one."""

    tcp: int = 0
    http: int = 0

    @classmethod
    def of(cls, tcp_address: str, http_url: str) -> Ports:
        """Return the ports in two addresses."""
        return cls(*(int(address.rpartition(":")[2]) for address in (tcp_address, http_url)))


def load_ports(directory: Path, names: Iterable[str]) -> dict[str, Ports]:
    """Return the ports of the last run, after making the directories of all servers.

    :raises click.ClickException: if the directories cannot be made, or the file cannot be used
    """
    names = list(names)
    path = _path(directory)
    try:
        for name in names[1:]:
            (directory / name).mkdir(parents=True, exist_ok=True)
        content: object = json.loads(path.read_bytes()) if path.exists() else {}
        stored = cast("dict[str, object]", content if isinstance(content, dict) else {})
        return {name: _ports(stored.get(name)) for name in names}
    except OSError as error:
        raise click.ClickException(f"cannot use {error.filename}: {error.strerror}") from error
    except (ValueError, TypeError, RecursionError) as error:
        raise click.ClickException(f"{path} is damaged; remove it to take other ports: {error}") from error


def _ports(value: object) -> Ports:
    if value is None:
        return Ports()
    match value:
        case [int(tcp), int(http)] if 0 < tcp <= _MAX_PORT and 0 < http <= _MAX_PORT:
            return Ports(tcp, http)
        case _:
            raise ValueError(f"{value!r} are not the ports of a server")


def save_ports(directory: Path, ports: Mapping[str, Ports]) -> None:
    """Store the ports, beside those of servers that do not run now.

    :raises click.ClickException: if the file cannot be written
    """
    path = _path(directory)
    try:
        stored: dict[str, object] = json.loads(path.read_bytes()) if path.exists() else {}
        stored.update(ports)
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(stored, indent=1) + "\n")
        temporary.replace(path)
    except OSError as error:
        raise click.ClickException(f"cannot use {error.filename}: {error.strerror}") from error


def _path(directory: Path) -> Path:
    return directory / "ports.json"
