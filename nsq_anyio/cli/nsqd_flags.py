"""Kinds of flags that only nsqd has: Go's booleans, unix sockets, versions of TLS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias, TypeVar

import click

from .go_flags import ListenAddress, listen_address
from .kinds import FILE

__all__ = [
    "Listen",
    "boolean",
    "boolean_option",
    "listen_address_or_path",
    "tls_client_auth_policy",
    "tls_flags",
    "tls_min_version",
    "tls_required",
]

_Command = TypeVar("_Command", bound=Callable[..., Any])

Listen: TypeAlias = ListenAddress | str
"""A str is the path of a unix socket."""

_TRUE = {"1", "t", "T", "TRUE", "true", "True"}
_FALSE = {"0", "f", "F", "FALSE", "false", "False"}
_VERSIONS = ("tls1.0", "tls1.1", "tls1.2", "tls1.3")
_POLICIES = ("require", "require-verify")


def boolean(text: str) -> bool:
    """The value of a Go boolean.

    :raises click.BadParameter: if it is none
    """
    if text not in _TRUE | _FALSE:
        raise click.BadParameter(f"{text!r} is not a boolean: use true or false")
    return text in _TRUE


def tls_required(text: str) -> bool | Literal["tcp-https"]:
    """The value of ``--tls-required``.

    :raises click.BadParameter: if it is none
    """
    if text.lower() == "tcp-https":
        return "tcp-https"
    if text.lower() not in _TRUE | _FALSE:
        raise click.BadParameter(f"{text!r} is not valid: use true, false or tcp-https")
    return text.lower() in _TRUE


def tls_min_version(text: str) -> str:
    """The value of ``--tls-min-version``; empty is the default.

    :raises click.BadParameter: if it is none
    """
    version = text.lower() or _VERSIONS[0]
    if version not in _VERSIONS:
        raise click.BadParameter(f"{text!r} is not a version: use one of {', '.join(_VERSIONS)}")
    return version


def tls_client_auth_policy(text: str) -> str | None:
    """The value of ``--tls-client-auth-policy``; empty is none.

    :raises click.BadParameter: if it is no policy
    """
    if text and text not in _POLICIES:
        raise click.BadParameter(f"{text!r} is not a policy: use {' or '.join(_POLICIES)}")
    return text or None


def listen_address_or_path(text: str) -> Listen:
    """Where to listen: ``host:port``, or a path, which has a slash in it.

    :raises click.BadParameter: if it is neither
    """
    return text if "/" in text else listen_address(text)


def boolean_option(
    flag: str, help: str, *, default: str = "false", kind: Callable[[str], Any] = boolean
) -> Callable[[_Command], _Command]:
    """A flag as Go has it: ``--flag`` alone is true, ``--flag=false`` is not."""
    return click.option(
        flag, type=kind, is_flag=False, flag_value="true", default=default, show_default=True, help=help
    )


def tls_flags(command: _Command) -> _Command:
    """Add the flags about TLS."""
    for flag, text in (
        ("--tls-root-ca-file", "Authorities of clients' certificates, and of https auth servers; PEM."),
        ("--tls-key", "Private key of the certificate, PEM."),
        ("--tls-cert", "Certificate with its chain, PEM; with it clients may negotiate TLS."),
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
        help="The oldest version to speak, tls1.0 to tls1.3; 1.2 is the oldest in any case.",
    )(command)
