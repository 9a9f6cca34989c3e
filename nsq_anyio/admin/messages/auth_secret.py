"""The auth secret of the dashboard, kept from nsqds that only nsqlookupds know.

Any client can register at an nsqlookupd as an nsqd, and nsqd decides whether its clients have to send their
secret. So the secret goes to nsqds that were given, and to those whose certificate a stranger cannot have: it
is signed by the user's own authority, or names the user's host. The system's authorities alone prove nothing
here: they sign a stranger's name, too.
"""

from __future__ import annotations

import inspect
import ssl
from collections.abc import Callable
from dataclasses import replace

from ...connection.auth_secret import SecretWithheld
from ...options import ConnectionOptions, TLSOptions


def guarded(
    connection: ConnectionOptions, are_nsqds_given: Callable[[], bool], *, auth_discovered: bool
) -> ConnectionOptions:
    """Return options whose secret is sent only to nsqds that may have it.

    :param are_nsqds_given: whether the nsqds were given, so that none comes from an nsqlookupd
    :param auth_discovered: whether any nsqd may have it
    """
    secret = connection.auth_secret
    if secret is None or auth_discovered or _is_verified(connection.tls):
        return connection

    async def reveal() -> str | bytes:
        if not are_nsqds_given():
            raise SecretWithheld(
                "it demands AUTH, and the secret is not sent to an nsqd that only nsqlookupds name: verify "
                "its certificate by --tls-ca-file, or use --auth-discovered"
            )
        returned = secret() if callable(secret) else secret
        return await returned if inspect.isawaitable(returned) else returned

    return replace(connection, auth_secret=reveal)


def _is_verified(tls: bool | ssl.SSLContext | TLSOptions) -> bool:
    if not isinstance(tls, TLSOptions):
        return False  # nobody knows whose authorities a context trusts
    if tls.ssl_context is not None:
        return tls.server_hostname is not None and tls.ssl_context.check_hostname
    return tls.verify and (tls.ca_file is not None or tls.server_hostname is not None)
