"""Permissions: administrators by a header, hosts by name, and ``/config`` by address.

The ``check_`` methods raise the refusal, so that no caller can overlook it.
"""

from __future__ import annotations

import ipaddress

from ..serving.http_messages import Request
from ..serving.nsq_api import Refusal
from .options import AdminOptions

_FORM_METHODS = frozenset({"POST", "GET", "HEAD"})
"""The methods that a page of another site can use without a preflight request."""

_SENT_BY_BROWSERS = ("origin", "sec-fetch-site")
"""Every browser sends one of these with a POST, and a page cannot prevent it; scripts send neither."""

_CROSS_SITE = "CROSS_SITE_REQUEST"


class Access:
    """Decides what a request may do."""

    def __init__(self, options: AdminOptions) -> None:
        self._is_read_only = options.read_only
        self._users = frozenset(options.admin_users)
        self._header = options.acl_http_header.lower()
        self._network = options.config_network
        self._hosts = frozenset(host.lower().strip("[]") for host in options.allowed_hosts)

    def may_act(self, request: Request) -> bool:
        """Return whether the user may act; otherwise pages offer no actions.

        The values of a repeated header are joined by commas, so a repeated header names no user.
        """
        return not self._is_read_only and self.is_admin(request)

    def is_admin(self, request: Request) -> bool:
        """Return whether the user is an administrator, who may see messages; without a list, everybody is."""
        return not self._users or self.user(request) in self._users

    def check_own_page(self, request: Request) -> None:
        """Check that a request for data does not come from a page of another site.

        :raises Refusal: 403 if it does
        """
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise Refusal(403, _CROSS_SITE)

    def user(self, request: Request) -> str:
        """Return the user that the header names; empty if there is none.

        Proxies send names in UTF-8, while each character of a header stands for one byte.
        """
        value = request.headers.get(self._header, "")
        return value.encode("latin-1", "replace").decode("utf-8", "surrogateescape")

    def check_writable(self) -> None:
        """Check that the dashboard is not read-only.

        :raises Refusal: 403 ``READ_ONLY`` if not
        """
        if self._is_read_only:
            raise Refusal(403, "READ_ONLY")

    def check_user(self, request: Request) -> None:
        """Check that the user may act.

        :raises Refusal: 403 ``READ_ONLY`` if nobody may, or ``FORBIDDEN`` if the user is no administrator
        """
        self.check_writable()
        if not self.may_act(request):
            raise Refusal(403, "FORBIDDEN")

    def check_action(self, request: Request) -> None:
        """Check that the user may act, and that no page of another site can have sent the request.

        :raises Refusal: 403 if the user may not act; 415 if a browser sent a body that is not JSON
        """
        self.check_user(request)
        headers = request.headers
        if request.method not in _FORM_METHODS or "x-requested-with" in headers:
            return
        if not any(name in headers for name in _SENT_BY_BROWSERS):
            return
        content_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type != "application/json":
            raise Refusal(415, "INVALID_CONTENT_TYPE")

    def check_form(self, request: Request) -> None:
        """Check that a form of the application's own pages may act.

        There are two defences. A page of another site cannot set ``X-Requested-With`` without a preflight
        request, which is never granted. And browsers name the site that a form comes from.

        :raises Refusal: 403 if the user may not act, or the form is not the application's own
        """
        self.check_user(request)
        headers = request.headers
        if "x-requested-with" not in headers:
            raise Refusal(403, _CROSS_SITE)
        if "sec-fetch-site" in headers:
            # Scripts cannot set this header, and no proxy alters it, as some proxies alter Host.
            is_own = headers["sec-fetch-site"] == "same-origin"
        else:  # over plain HTTP, browsers send only the origin
            is_own = "origin" not in headers or _is_origin_of(headers["origin"], headers.get("host", ""))
        if not is_own:
            raise Refusal(403, _CROSS_SITE)

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


def _is_origin_of(origin: str, host: str) -> bool:
    """Return whether ``Origin`` names ``Host``; ``null`` names no host."""
    scheme, separator, authority = origin.lower().partition("://")
    return bool(separator and host) and scheme in ("http", "https") and authority == host.lower()


def _host(text: str) -> str:
    """Return the host of ``host:port``, ``[ipv6]:port`` or ``host``, in lower case."""
    if text.startswith("["):
        return text[1:].partition("]")[0].lower()
    return text.partition(":")[0].lower()
