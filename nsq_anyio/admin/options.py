"""The settings of the application."""

from __future__ import annotations

import ipaddress
import os
import posixpath
import re
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ..errors import InvalidOption
from ..http.url import ServerURL
from ..options import ConnectionOptions
from ..options.checks import check_integer, check_seconds

_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PATH = re.compile(r"[-./0-9A-Za-z_~]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class AdminOptions:
    """The settings of `app`; the defaults are those of nsqadmin 1.3.0.

    :ivar base_path: the path below which everything is served, of letters, digits and ``-._~/``
    :ivar admin_users: who may act; if empty, everybody may
    :ivar acl_http_header: the header with the name of the user. A proxy must set it, and must drop it from
        incoming requests
    :ivar read_only: whether all actions and changes of the configuration are refused
    :ivar allow_config_from_cidr: the network from which ``/config`` may be used; empty for any
    :ivar allowed_hosts: the host names, without ports, that a request may be addressed to; if empty, any.
        ``/ping`` and static files are answered for any host
    :ivar notification_http_endpoint: the URL to which each action is posted, or None
    :ivar timeout: seconds for one step on one server, 0.001 or more; nsqadmin waits 5. Pages and actions wait
        for 2 at most if the server was silent in the last poll
    :ivar max_reply_size: the most bytes that are read of a server's answer, 1 or more; an answer may have one
        JSON value for each 16 bytes of this limit, and at least 1000. nsqadmin has no limit
    :ivar headers: sent to the servers that were given, such as ``{"Authorization": "Bearer ..."}``, and never
        to nsqds that nsqlookupds name. Of the nsqlookupds that ``PUT /config`` sets, those get them that were
        given at the start
    :ivar ssl_context: for ``https``; the default trusts the system's certificate authorities
    :ivar config: further values that ``GET /config/:opt`` returns, by name
    :ivar messages: whether pages show messages: a live tail, and dead letters; nsqadmin does not
    :ivar connection: how messages are consumed from nsqds by TCP; ``map_address`` applies to all nsqds.
        ``auth_secret`` is sent to nsqds that were given. To nsqds that nsqlookupds name, it is sent only if
        ``tls`` verifies them by a ``ca_file`` or a ``server_hostname``
    :ivar auth_discovered: whether these secrets are sent to any server: ``auth_secret`` to all nsqds that
        nsqlookupds name, ``headers`` to all nsqlookupds that ``PUT /config`` sets
    :ivar poll_interval: seconds from one poll of the cluster to the next, 0.01 or more; nsqadmin does not
        poll
    :ivar history: seconds of history that are kept, 60 or more; nsqadmin keeps none
    :ivar history_file: an SQLite file that keeps the history over a restart, or None; it is created if it is
        missing, and cannot be shared. A crash may lose the last 5 minutes
    :ivar delay_file: the file of a delay service, whose waiting messages a page shows, or None; nsqadmin has
        no delay service
    :raises InvalidOption: if a value is not valid
    """

    base_path: str = "/"
    admin_users: Sequence[str] = ()
    acl_http_header: str = "X-Forwarded-User"
    read_only: bool = False
    allow_config_from_cidr: str = "127.0.0.1/8"
    allowed_hosts: Sequence[str] = ()
    notification_http_endpoint: str | None = None
    timeout: float = 10.0
    max_reply_size: int = 16 * 1024 * 1024
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    ssl_context: ssl.SSLContext | None = None
    config: Mapping[str, object] = field(default_factory=dict[str, object])
    messages: bool = True
    connection: ConnectionOptions = field(default_factory=ConnectionOptions)
    auth_discovered: bool = False
    poll_interval: float = 5.0
    history: float = 86400.0
    history_file: str | os.PathLike[str] | None = None
    delay_file: str | os.PathLike[str] | None = None

    def __post_init__(self) -> None:
        if not _PATH.fullmatch(self.base_path):
            raise InvalidOption(
                f"base_path={self.base_path!r} is not valid: use letters, digits and '-._~/', such as '/nsq'"
            )
        if isinstance(self.admin_users, str) or not all(user.strip() for user in self.admin_users):
            # With an empty name, a request without the header would be an administrator's.
            raise InvalidOption(
                f"admin_users={self.admin_users!r} is not valid: use names that are not empty"
            )
        if not _HEADER.fullmatch(self.acl_http_header):
            raise InvalidOption(
                f"acl_http_header={self.acl_http_header!r} is not valid: use the name of a header"
            )
        if isinstance(self.allowed_hosts, str) or not all(self.allowed_hosts):
            raise InvalidOption(f"allowed_hosts={self.allowed_hosts!r} is not valid: use host names")
        if self.notification_http_endpoint is not None:
            ServerURL.parse(self.notification_http_endpoint)
        check_seconds("timeout", self.timeout, 0.001)
        check_integer("max_reply_size", self.max_reply_size, 1)
        check_seconds("poll_interval", self.poll_interval, 0.01)
        check_seconds("history", self.history, 60)
        _ = self.config_network

    @property
    def config_network(self) -> ipaddress.IPv4Network | ipaddress.IPv6Network | None:
        """The network of ``allow_config_from_cidr``; None for any."""
        text = self.allow_config_from_cidr
        if not text:
            return None
        try:
            if "/" not in text:
                raise ValueError
            return ipaddress.ip_network(text, strict=False)
        except ValueError:
            raise InvalidOption(
                f"allow_config_from_cidr={text!r} is not valid: use a network such as '10.0.0.0/8'"
            ) from None

    @property
    def base(self) -> str:
        """``base_path`` with a slash at its beginning, and none at its end; empty for the root."""
        return posixpath.normpath(f"/{self.base_path.lstrip('/')}").rstrip("/")
