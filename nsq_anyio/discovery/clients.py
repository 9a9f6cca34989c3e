"""The HTTP clients for nsqlookupds, with the TLS, authorization and time limit of the options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from ..connection.auth_secret import bearer
from ..errors import InvalidOption
from ..http import Authorization, Nsqlookupd
from ..options import AuthSecret, ConsumerOptions, ProducerOptions
from ..transport.tls_context import client_context, tls_options

LookupOptions: TypeAlias = ConsumerOptions | ProducerOptions
"""Options that include those of ``nsq_anyio.options.lookup``."""


def lookup_clients(
    urls: Sequence[str], options: LookupOptions, auth_secret: AuthSecret | None
) -> list[Nsqlookupd]:
    """Return a client for each URL.

    :raises InvalidOption: if a file of ``lookupd_tls`` cannot be used, or there is no secret to send
    """
    # A client without a context loads the system's authorities when it is opened, in a thread.
    tls = None if isinstance(options.lookupd_tls, bool) else tls_options(options.lookupd_tls)
    context = None if tls is None else client_context(tls)
    return [
        Nsqlookupd(
            url,
            timeout=options.lookupd_poll_timeout,
            authorization=_authorization(url, options, auth_secret),
            ssl_context=context,
            server_hostname=None if tls is None else tls.server_hostname,
        )
        for url in urls
    ]


def _authorization(url: str, options: LookupOptions, auth_secret: AuthSecret | None) -> Authorization | None:
    if not options.lookupd_authorization:
        return None
    if auth_secret is None:
        raise InvalidOption(
            "lookupd_authorization=True without a secret: set ConnectionOptions(auth_secret=...)"
        )
    return bearer(auth_secret, url)
