"""AUTH: what one client may do and until when, and the errors with which nsqd refuses the rest."""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Awaitable, Callable
from typing import TypeAlias

import anyio

from ..errors import ServerError
from .authorization import Authorizer, AuthRequest, AuthState, NoAuthorization
from .nsqd_options import NsqdOptions

_logger = logging.getLogger(__name__)

AuthSource: TypeAlias = Callable[[AuthRequest], Awaitable[AuthState]]
"""Returns what a client may do, in bounded time, or raises `NoAuthorization`."""


def auth_source(options: NsqdOptions) -> AuthSource | None:
    """Return the source that says what clients may do; None if they need no AUTH.

    :raises InvalidOption: if a file for TLS cannot be used
    """
    if options.auth is not None:
        return _Function(options.auth, options.http_client_request_timeout)
    if not options.auth_http_addresses:
        return None
    from .auth_http import AuthServers  # noqa: PLC0415 - httpx takes longer to import than all the rest

    return AuthServers(options)


class _Function:
    """Asks a function of the user instead of an auth server."""

    def __init__(self, function: Authorizer, timeout: float) -> None:
        self._function = function
        self._timeout = timeout

    async def __call__(self, request: AuthRequest) -> AuthState:
        try:
            with anyio.fail_after(self._timeout):
                answer = self._function(request)
                state = await answer if inspect.isawaitable(answer) else answer
        except Exception as error:  # noqa: BLE001 - any exception refuses the client
            # Its text may quote the secret.
            text = str(error).replace(request.secret, "***")
            raise NoAuthorization(f"{type(error).__name__}: {text}") from None
        if not isinstance(state, AuthState):
            raise NoAuthorization(f"auth returned {type(state).__name__} instead of an AuthState")
        return state


class AuthorizationExpired(Exception):
    """The authorization has expired: call `Access.renew`, then check the command again."""


class Access:
    """What one client may do.

    :param describe: returns the request to make for a secret of the client
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

        :raises ServerError: if the client is refused, or may do nothing
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
        :raises ServerError: if the client may not
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
