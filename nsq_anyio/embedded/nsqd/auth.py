"""AUTH: the requests to auth servers, their answers, and the authorizations of a client.

Names are as in nsqd's JSON; rules and errors are those of nsqd 1.3.0 (``internal/auth``).
"""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

import anyio

from ...errors import InvalidOption, ServerError
from ...options.checks import check_seconds
from ...re2_pattern import ANYTHING, pattern

Permission = Literal["subscribe", "publish"]

_logger = logging.getLogger(__name__)


class NoAuthorization(Exception):
    """No auth server gave a valid answer; the text holds no secret."""


@dataclass(frozen=True, slots=True)
class AuthRequest:
    """nsqd's description of a client for its auth server.

    :ivar secret: the secret that the client sent with AUTH; bytes that are not UTF-8 become surrogates
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
    """The answer of an auth server.

    :param authorizations: the permissions of the client; without any, AUTH fails
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
        """Return whether one of the authorizations allows it; see `Authorization.allows`."""
        return any(authorization.allows(topic, channel) for authorization in self.authorizations)


Authorizer: TypeAlias = Callable[[AuthRequest], AuthState | Awaitable[AuthState]]
"""Returns the permissions of a client. If it raises any exception, AUTH fails, and the log says why."""


AuthSource: TypeAlias = Callable[[AuthRequest], Awaitable[AuthState]]
"""Returns the authorizations of a client, in bounded time, or raises `NoAuthorization`."""


class FunctionSource:
    """The user's function in place of an auth server."""

    def __init__(self, function: Authorizer, timeout: float) -> None:
        self._function = function
        self._timeout = timeout

    async def __call__(self, request: AuthRequest) -> AuthState:
        try:
            with anyio.fail_after(self._timeout):
                answer = self._function(request)
                state = await answer if inspect.isawaitable(answer) else answer
        except Exception as error:  # noqa: BLE001 - any exception refuses the client
            # The text of the error may quote the secret.
            text = str(error).replace(request.secret, "***")
            raise NoAuthorization(f"{type(error).__name__}: {text}") from None
        if not isinstance(state, AuthState):
            raise NoAuthorization(f"auth returned {type(state).__name__} instead of an AuthState")
        return state


class AuthorizationExpired(Exception):
    """The authorization has expired: call `Access.renew`, then check the command again."""


class Access:
    """The authorizations of one client.

    :param describe: returns the request for a secret of the client
    :ivar state: the last answer of the source; None before AUTH
    """

    def __init__(self, source: AuthSource, describe: Callable[[str], AuthRequest]) -> None:
        self.state: AuthState | None = None
        self._source = source
        self._describe = describe
        self._secret = ""
        self._expires_at = 0.0
        self._is_fresh = False

    async def authenticate(self, secret: bytes) -> bytes:
        """Execute AUTH and return nsqd's response.

        :raises ServerError: if the client is refused, or has no permission
        """
        self._secret = secret.decode("utf-8", "surrogateescape")
        state = await self._ask()
        if not state.authorizations:
            raise ServerError("E_UNAUTHORIZED", "AUTH no authorizations found")
        reply = {
            "identity": state.identity,
            "identity_url": state.identity_url,
            "permission_count": len(state.authorizations),
        }
        return json.dumps(reply, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")

    async def renew(self) -> None:
        """Ask again; the next `check` uses the answer, even if it has expired by then.

        :raises ServerError: if the client is refused
        """
        await self._ask()
        self._is_fresh = True

    def check(self, command: str, topic: str, channel: str = "") -> None:
        """Check that the client may execute a command.

        :raises AuthorizationExpired: if `renew` has to be called first
        :raises ServerError: if the client has not authenticated, or lacks the permission
        """
        if self.state is None:
            raise ServerError("E_AUTH_FIRST", f"AUTH required before {command}")
        if anyio.current_time() > self._expires_at and not self._is_fresh:
            raise AuthorizationExpired
        self._is_fresh = False
        if not self.state.allows(topic, channel):
            raise ServerError("E_UNAUTHORIZED", f'AUTH failed for {command} on "{topic}" "{channel}"')

    async def _ask(self) -> AuthState:
        request = self._describe(self._secret)
        try:
            self.state = await self._source(request)
        except NoAuthorization as failure:
            # Only the log says why: an untrusted client must not learn about the servers behind nsqd.
            _logger.warning(
                "AUTH of a client at %s failed: %s", request.remote_ip or "a unix socket", failure
            )
            raise ServerError("E_AUTH_FAILED", "AUTH failed") from None
        self._expires_at = anyio.current_time() + self.state.ttl
        return self.state
