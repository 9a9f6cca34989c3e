"""Who may do what: administrators by a header, hosts by name, and ``/config`` by address.

`forbid` and its like raise the refusal, so that no caller can overlook it.
"""

from __future__ import annotations

import ipaddress

from ..serving.http_messages import Request
from ..serving.nsq_api import Refusal
from .options import AdminOptions

__all__ = ["Access"]

_FORM_METHODS = frozenset({"POST", "GET", "HEAD"})
"""The methods with which a page of another site can make a browser send a request without asking first."""

_SENT_BY_BROWSERS = ("origin", "sec-fetch-site")
"""Every browser sends one of these with a POST, and a page cannot prevent it; scripts send neither."""


class Access:
    """Refuses requests."""

    def __init__(self, options: AdminOptions) -> None:
        self._users = frozenset(options.admin_users)
        self._header = options.acl_http_header.lower()
        self._network = options.config_network
        self._hosts = frozenset(host.lower().strip("[]") for host in options.allowed_hosts)

    def is_admin(self, request: Request) -> bool:
        """Return whether the user may act.

        A header that comes repeatedly has its values joined by commas, so it names no user.
        """
        return not self._users or request.headers.get(self._header) in self._users

    def user(self, request: Request) -> str:
        """Return the user that the header names; empty if there is none."""
        return request.headers.get(self._header, "")

    def check_action(self, request: Request) -> None:
        """Check that a request may act, and that no page of another site can have sent it.

        :raises Refusal: 403 if the user is no administrator; 415 for what an HTML form could send
        """
        if not self.is_admin(request):
            raise Refusal(403, "FORBIDDEN")
        headers = request.headers
        if request.method not in _FORM_METHODS or "x-requested-with" in headers:
            return
        if not any(name in headers for name in _SENT_BY_BROWSERS):
            return
        content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type != "application/json":
            raise Refusal(415, "INVALID_CONTENT_TYPE")

    def check_host(self, request: Request) -> None:
        """Check that the request is addressed to an allowed host.

        :raises Refusal: 403 if it is not
        """
        if self._hosts and _host(request.headers.get("host", "")) not in self._hosts:
            raise Refusal(403, "INVALID_HOST")

    def check_config(self, request: Request) -> None:
        """Check that the request comes from the network that may use ``/config``.

        :raises Refusal: 403 if it does not; 400 if the address is not known
        """
        if self._network is None:
            return
        host = _host(request.remote).partition("%")[0]
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            raise Refusal(400, "INVALID_REMOTE_ADDR") from None
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        if address not in self._network:
            raise Refusal(403, "FORBIDDEN")


def _host(text: str) -> str:
    """Return the host of ``host:port``, ``[ipv6]:port`` or ``host``, in lower case."""
    if text.startswith("["):
        return text[1:].partition("]")[0].lower()
    return text.partition(":")[0].lower()
