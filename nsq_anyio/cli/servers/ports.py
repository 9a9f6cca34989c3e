"""The ports of the servers of ``up``: NSQ's usual ports, or free ports that can stay the same at each run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple, cast

import click

NSQLOOKUPD = "nsqlookupd"
DASHBOARD_PORT = 4171
"""nsqadmin's default."""

_MAX_PORT = 65_535
_APART = 100
"""The distance between the ports of two nsqds, which avoids the ports of NSQ's other programs."""


class Ports(NamedTuple):
    """The ports of one server; 0 takes a free port."""

    tcp: int = 0
    http: int = 0

    @classmethod
    def of(cls, tcp_address: str, http_url: str) -> Ports:
        """Return the ports in two addresses."""
        return cls(*(int(address.rpartition(":")[2]) for address in (tcp_address, http_url)))


def usual_ports(nsqds: Iterable[str]) -> dict[str, Ports]:
    """Return the default ports of nsqlookupd and the first nsqd; each further nsqd has ports 100 higher."""
    ports = {name: Ports(4150 + _APART * place, 4151 + _APART * place) for place, name in enumerate(nsqds)}
    return {NSQLOOKUPD: Ports(4160, 4161), **ports}


def load_ports(directory: Path, names: Iterable[str]) -> dict[str, Ports]:
    """Return the ports of the last run with free ports; 0 for the ports of new servers.

    :raises click.ClickException: if the file cannot be used
    """
    path = ports_file(directory)
    try:
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
    """Store the ports; keep the stored ports of servers that do not run now.

    :raises click.ClickException: if the file cannot be written
    """
    path = ports_file(directory)
    try:
        stored: dict[str, object] = json.loads(path.read_bytes()) if path.exists() else {}
        stored.update(ports)
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(stored, indent=1) + "\n")
        temporary.replace(path)
    except OSError as error:
        raise click.ClickException(f"cannot use {error.filename}: {error.strerror}") from error


def ports_file(directory: Path) -> Path:
    """Return the path of the file that stores the ports."""
    return directory / "ports.json"
