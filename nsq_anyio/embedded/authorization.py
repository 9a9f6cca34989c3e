"""The request to an auth server, and its answer.

The names are those of nsqd's JSON, the rules those of nsqd 1.3.0 (``internal/auth``).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from ..errors import InvalidOption
from ..options.checks import check_seconds
from ..re2_pattern import ANYTHING, pattern

Permission = Literal["subscribe", "publish"]


class NoAuthorization(Exception):
    """No auth server gave a valid answer; the text holds no secret."""


@dataclass(frozen=True, slots=True)
class AuthRequest:
    """What nsqd tells its auth server about a client.

    :ivar secret: what the client sent with AUTH; bytes that are not UTF-8 become surrogates
    :ivar remote_ip: the client's address; empty on a unix socket
    :ivar tls: whether the client uses TLS
    :ivar common_name: the common name of the client's certificate; empty without one
    """

    secret: str = field(repr=False)
    remote_ip: str
    tls: bool
    common_name: str


@dataclass(frozen=True, slots=True)
class Authorization:
    """A permission. The expressions match anywhere in a name, as in nsqd.

    They have RE2's syntax, as in Go, and matching takes time in proportion to the name's length. All
    expressions but ``.*`` need the extra ``re2``.

    :param topic: a regular expression for topics; default: all topics
    :param channels: regular expressions for channels, one of which has to match. They are matched against ""
        for a publish. Default: all channels
    :param permissions: ``subscribe``, ``publish`` or both; default: both
    :raises InvalidOption: if an expression or a permission is not valid, or google-re2 is not installed
    """

    topic: str = ANYTHING
    channels: Sequence[str] = (ANYTHING,)
    permissions: Sequence[Permission] = ("subscribe", "publish")

    def __post_init__(self) -> None:
        for option, value in (("channels", self.channels), ("permissions", self.permissions)):
            if isinstance(value, str):
                raise InvalidOption(f"{option}={value!r} is not valid: use a sequence of strings")
        for permission in self.permissions:
            if permission not in get_args(Permission):
                raise InvalidOption(
                    f"permission {permission!r} is not valid: use {' or '.join(get_args(Permission))}"
                )
        for expression in (self.topic, *self.channels):
            if not isinstance(expression, str):
                raise InvalidOption(f"expression {expression!r} is not valid: use a string")
            pattern(expression)

    def allows(self, topic: str, channel: str) -> bool:
        """Return whether it allows a subscription to ``channel``; with channel "", a publish to ``topic``."""
        return (
            ("subscribe" if channel else "publish") in self.permissions
            and pattern(self.topic).is_in(topic)
            and any(pattern(expression).is_in(channel) for expression in self.channels)
        )


@dataclass(frozen=True, slots=True)
class AuthState:
    """What an auth server answers.

    :param authorizations: what the client may do; without any, AUTH fails
    :param identity: who the client is
    :param identity_url: a page about that identity
    :param ttl: the seconds for which this answer holds, more than 0; default 3600. The first publish or SUB
        after that asks the auth server again
    :raises InvalidOption: if a value has the wrong type, or ``ttl`` out of range
    """

    authorizations: Sequence[Authorization]
    identity: str = ""
    identity_url: str = ""
    ttl: float = 3600.0

    def __post_init__(self) -> None:
        check_seconds("ttl", self.ttl, 0.001)
        for option in ("identity", "identity_url"):
            value = getattr(self, option)
            if not isinstance(value, str):
                raise InvalidOption(f"{option}={value!r} is not valid: use a string")
        if not all(isinstance(authorization, Authorization) for authorization in self.authorizations):
            raise InvalidOption(
                f"authorizations={self.authorizations!r} is not valid: use a sequence of Authorization"
            )

    def allows(self, topic: str, channel: str) -> bool:
        """Return whether one of the authorizations does; see `Authorization.allows`."""
        return any(authorization.allows(topic, channel) for authorization in self.authorizations)


Authorizer: TypeAlias = Callable[[AuthRequest], AuthState | Awaitable[AuthState]]
"""Returns what a client may do. If it raises any exception, AUTH fails, and the log says why."""
