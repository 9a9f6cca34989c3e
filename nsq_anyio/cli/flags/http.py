"""The flags of HTTP requests: ``--header``, and nsqadmin's TLS flags for https."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, TypeVar, cast

import click

from ...errors import InvalidOption
from .kinds import FILE, in_order

_Command = TypeVar("_Command", bound=Callable[..., Any])

# RFC 9110, section 5: a token, and printable ASCII without white space at its ends.
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e\t]*[\x21-\x7e])?")

_FRAMING = frozenset(
    (
        "connection",
        "content-length",
        "http2-settings",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    )
)
"""Headers that delimit a body or control the connection; the HTTP client writes them itself."""

_EXAMPLE = "use 'Name: value', such as 'X-Source: nsq'"


def parse_header(text: str) -> tuple[str, str]:
    """Return the name and value of a header.

    :raises InvalidOption: if the text is not a header, or the header frames a request; the error omits the
        value, which may be a secret
    """
    name, _, value = (part.strip() for part in text.partition(":"))
    if not _NAME.fullmatch(name):
        raise InvalidOption(f"a header without a valid name was given: {_EXAMPLE}")
    if not _VALUE.fullmatch(value):
        raise InvalidOption(f"header {name} has no valid value: {_EXAMPLE}")
    if name.lower() in _FRAMING:
        raise InvalidOption(
            f"header {name} cannot be set: it frames the request or controls its connection, so each request "
            "sets its own; leave it out"
        )
    return name, value


_TLS_OPTIONS = (
    click.option(
        "--http-client-tls-root-ca-file",
        type=FILE,
        metavar="FILE",
        help="The certificate authorities to trust for https, PEM.  [default: the system's]",
    ),
    click.option(
        "--http-client-tls-cert",
        type=FILE,
        metavar="FILE",
        help="This client's certificate for https, PEM.",
    ),
    click.option(
        "--http-client-tls-key", type=FILE, metavar="FILE", help="The certificate's private key, PEM."
    ),
    click.option(
        "--http-client-tls-insecure-skip-verify",
        is_flag=True,
        help="Do not verify the certificates of https servers: for tests only.",
    ),
)


def http_tls_flags(command: _Command) -> _Command:
    """Add the TLS flags; the command receives them as one argument ``http_tls``."""

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
            ca_file=http_client_tls_root_ca_file or None,
            certificate_file=http_client_tls_cert or None,
            private_key_file=http_client_tls_key or None,
            verify=not http_client_tls_insecure_skip_verify,
        )
        return command(*args, http_tls=tls, **kwargs)

    return cast("_Command", in_order(*_TLS_OPTIONS)(with_tls))
