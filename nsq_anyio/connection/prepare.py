"""Prepares the options once for all connections of a consumer or producer."""

from __future__ import annotations

from dataclasses import replace

from ..options import ConnectionOptions, TLSOptions
from ..transport.tls_context import client_context, tls_options


def prepared(options: ConnectionOptions) -> ConnectionOptions:
    """Return the options with a finished TLS context: its files are read, and errors in them raised, now.

    :raises InvalidOption: if a file cannot be read or used
    """
    tls = tls_options(options.tls)
    if tls is None:
        return options
    context = client_context(tls)
    return replace(options, tls=TLSOptions(server_hostname=tls.server_hostname, ssl_context=context))
