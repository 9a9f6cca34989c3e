"""HTTP requests: the values of ``--header``, and nsqadmin's TLS flags for https."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...errors import InvalidOption
from .fields import Flags, flag, grouped, switch
from .kinds import FILE

if TYPE_CHECKING:
    from ...options import TLSOptions

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


class _HttpTLSFlags(Flags):
    """The TLS flags of requests, named like nsqadmin's."""

    http_client_tls_root_ca_file: str | None = flag(
        "The certificate authorities to trust for https, PEM.  [default: the system's]", type=FILE
    )
    http_client_tls_cert: str | None = flag("This client's certificate for https, PEM.", type=FILE)
    http_client_tls_key: str | None = flag("The certificate's private key, PEM.", type=FILE)
    http_client_tls_insecure_skip_verify: bool = switch(
        "Do not verify the certificates of https servers: for tests only."
    )

    def options(self) -> TLSOptions:
        from ...options import TLSOptions

        return TLSOptions(
            ca_file=self.http_client_tls_root_ca_file or None,
            certificate_file=self.http_client_tls_cert or None,
            private_key_file=self.http_client_tls_key or None,
            verify=not self.http_client_tls_insecure_skip_verify,
        )


http_tls_flags: Callable[[Any], Any] = grouped(_HttpTLSFlags, http_tls=_HttpTLSFlags.options)
"""Adds the TLS flags; the command receives `TLSOptions` as ``http_tls``."""
