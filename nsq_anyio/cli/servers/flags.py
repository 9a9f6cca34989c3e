"""Types of flag values that only nsqd and nsqlookupd have, such as listen addresses and TLS versions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, TypeVar

import click

from ...address import Address, ListenAddress
from ..flags.kinds import FILE, boolean, boolean_option, flag_kind
from .config_file import nsq_config_option

__all__ = [
    "Listen",
    "ListenAddress",
    "address_flags",
    "listen_address",
    "listen_address_or_path",
    "log_level",
    "peer_address",
    "program_flags",
    "tls_client_auth_policy",
    "tls_flags",
    "tls_min_version",
    "tls_required",
]

_Command = TypeVar("_Command", bound=Callable[..., Any])


Listen: TypeAlias = ListenAddress | str
"""A str is the path of a unix socket."""

_VERSIONS = ("tls1.0", "tls1.1", "tls1.2", "tls1.3")
_LOG_LEVELS = ("debug", "info", "warn", "error", "fatal")
_POLICIES = ("require", "require-verify")


def tls_required(text: str) -> bool | Literal["tcp-https"]:
    """Parse the value of ``--tls-required``.

    :raises click.BadParameter: if the value is invalid
    """
    if text.lower() == "tcp-https":
        return "tcp-https"
    try:
        return boolean(text.lower())
    except click.BadParameter:
        raise click.BadParameter(f"{text!r} is not valid: use true, false or tcp-https") from None


def tls_min_version(text: str) -> str:
    """Parse the value of ``--tls-min-version``; empty means the default.

    :raises click.BadParameter: if the value is invalid
    """
    version = text.lower() or _VERSIONS[0]
    if version not in _VERSIONS:
        raise click.BadParameter(f"{text!r} is not a version: use one of {', '.join(_VERSIONS)}")
    return version


def tls_client_auth_policy(text: str) -> str | None:
    """Parse the value of ``--tls-client-auth-policy``; empty means no policy.

    :raises click.BadParameter: if the value is invalid
    """
    if text and text not in _POLICIES:
        raise click.BadParameter(f"{text!r} is not a policy: use {' or '.join(_POLICIES)}")
    return text or None


def log_level(text: str) -> str:
    """Return the name of a log level in lower case.

    :raises click.BadParameter: if there is no such level
    """
    if text.lower() not in _LOG_LEVELS:
        raise click.BadParameter(f"{text!r} is not a level: use one of {', '.join(_LOG_LEVELS)}")
    return text.lower()


@flag_kind
def listen_address(text: str) -> ListenAddress:
    """Parse an address to listen on: ``host:port``, or ``:port`` for all interfaces, as in Go."""
    return ListenAddress.parse(text)


@flag_kind
def peer_address(text: str) -> str:
    """Check the address of another server, ``host:port``, and return it."""
    return str(Address.parse(text))


def listen_address_or_path(text: str) -> Listen:
    """Parse an address to listen on: ``host:port``, or a path, which contains a slash.

    :raises click.BadParameter: if the text is neither
    """
    return text if "/" in text else listen_address(text)


def address_flags(
    ports: dict[str, int], broadcast_help: str, kind: Callable[[str], Listen] = listen_address
) -> Callable[[_Command], _Command]:
    """Add flags for the addresses to listen on, each with its default port."""

    def add(command: _Command) -> _Command:
        for name, port in reversed(ports.items()):
            takes_path = kind is listen_address_or_path and name != "https_address"
            command = click.option(
                f"--{name.replace('_', '-')}",
                type=kind if takes_path else listen_address,
                metavar="HOST:PORT|PATH" if takes_path else "HOST:PORT",
                default=f"127.0.0.1:{port}",
                show_default=True,
                help="The address to listen on; port 0 takes a free port.",
            )(command)
        return click.option("--broadcast-address", metavar="HOST", help=broadcast_help)(command)

    return add


def program_flags(program: str) -> Callable[[_Command], _Command]:
    """Add ``--version``, ``--config`` and ``--verbose`` of the real ``program``."""

    def print_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
        if wanted and not context.resilient_parsing:
            from ...embedded.identity import version_line

            click.echo(version_line(program))
            context.exit()

    def add(command: _Command) -> _Command:
        command = boolean_option("--verbose", "No effect, as in the real program.", expose_value=False)(
            command
        )
        command = nsq_config_option(command)
        return boolean_option(
            "--version",
            "Print the version of NSQ that this server emulates.",
            is_eager=True,
            expose_value=False,
            callback=print_version,
        )(command)

    return add


def tls_flags(command: _Command) -> _Command:
    """Add the TLS flags."""
    for flag, text in (
        ("--tls-root-ca-file", "The authorities of clients' certificates and of https auth servers, PEM."),
        ("--tls-key", "The certificate's private key, PEM."),
        ("--tls-cert", "The certificate with its chain, PEM; it lets clients negotiate TLS."),
    ):
        command = click.option(flag, type=FILE, metavar="FILE", help=text)(command)
    command = click.option(
        "--tls-client-auth-policy",
        type=tls_client_auth_policy,
        metavar="POLICY",
        help="Whether clients need a certificate: require or require-verify.",
    )(command)
    command = boolean_option(
        "--tls-required", "Whether clients need TLS: true, false or tcp-https.", kind=tls_required
    )(command)
    return click.option(
        "--tls-min-version",
        type=tls_min_version,
        metavar="VERSION",
        default="tls1.0",
        show_default=True,
        help="The oldest TLS version to accept, tls1.0 to tls1.3; an older one than 1.2 is raised to 1.2.",
    )(command)
