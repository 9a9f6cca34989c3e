"""The flags for https, as nsqadmin has them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from .kinds import FILE

__all__ = ["http_tls_flags"]

_CommandT = TypeVar("_CommandT", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--http-client-tls-root-ca-file",
        type=FILE,
        metavar="FILE",
        help="The authorities to trust, for https.",
    ),
    click.option(
        "--http-client-tls-cert",
        type=FILE,
        metavar="FILE",
        help="This client's certificate, for https.",
    ),
    click.option("--http-client-tls-key", type=FILE, metavar="FILE", help="Its key."),
    click.option(
        "--http-client-tls-insecure-skip-verify",
        is_flag=True,
        help="Trust whoever answers to https.",
    ),
)


def http_tls_flags(command: _CommandT) -> _CommandT:
    """Add the flags; they come to the command as one ``http_tls``."""

    @functools.wraps(command)
    def with_tls(
        *args: Any,
        http_client_tls_root_ca_file: str | None,
        http_client_tls_cert: str | None,
        http_client_tls_key: str | None,
        http_client_tls_insecure_skip_verify: bool,
        **kwargs: Any,
    ) -> Any:
        from ...options import TLSOptions

        tls = TLSOptions(
            ca_file=http_client_tls_root_ca_file,
            certificate_file=http_client_tls_cert,
            private_key_file=http_client_tls_key,
            verify=not http_client_tls_insecure_skip_verify,
        )
        return command(*args, http_tls=tls, **kwargs)

    for option in reversed(_OPTIONS):
        with_tls = option(with_tls)
    return with_tls  # type: ignore[return-value]
