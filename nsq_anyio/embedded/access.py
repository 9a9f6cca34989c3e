"""AUTH of one client: what it may do, until when, and in which words nsqd refuses the rest."""

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

__all__ = ["Access", "AuthSource", "AuthorizationExpired", "auth_source"]

_logger = logging.getLogger(__name__)

AuthSource: TypeAlias = Callable[[AuthRequest], Awaitable[AuthState]]
"""Says what a client may do, within some bounded time, or raises `NoAuthorization`."""


def auth_source(options: NsqdOptions) -> AuthSource | None:
    """Who is asked what clients may do; None when they need no AUTH.

    :raises InvalidOption: if a file for TLS cannot be used
    """
    if options.auth is not None:
        return _Function(options.auth, options.http_client_request_timeout)
    if not options.auth_http_addresses:
        return None
    from .auth_http import AuthServers  # noqa: PLC0415 - httpx takes longer to import than all the rest

    return AuthServers(options)


class _Function:
    """A function of the user, in place of an auth server."""

    def __init__(self, function: Authorizer, timeout: float) -> None:
        self._function = function
        self._timeout = timeout

    async def __call__(self, asked: AuthRequest) -> AuthState:
        try:
            with anyio.fail_after(self._timeout):
                answer = self._function(asked)
                state = await answer if inspect.isawaitable(answer) else answer
        except Exception as error:  # noqa: BLE001 - whatever it raises refuses the client
            # It may quote the secret.
            text = str(error).replace(asked.secret, "***")
            raise NoAuthorization(f"{type(error).__name__}: {text}") from None
        if not isinstance(state, AuthState):
            raise NoAuthorization(f"auth returned {type(state).__name__} instead of an AuthState")
        return state


class AuthorizationExpired(Exception):
    """`Access.renew` has to be called before the command can be judged."""


class Access:
    """What one client may do.

    :param describe: what to tell of the client, given its secret
    :ivar state: the last answer; None before AUTH
    """

    def __init__(self, source: AuthSource, describe: Callable[[str], AuthRequest]) -> None:
        self.state: AuthState | None = None
        self._source = source
        self._describe = describe
        self._secret = ""
        self._expires_at = 0.0
        self._is_fresh = False

    async def authenticate(self, secret: bytes) -> bytes:
        """AUTH; returns nsqd's answer.

        :raises ServerError: if the client may do nothing
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
        """Ask again; the next `check` takes the answer, however short-lived that is.

        :raises ServerError: if there is none
        """
        await self._ask()
        self._is_fresh = True

    def check(self, command: str, topic: str, channel: str = "") -> None:
        """Let a command pass, or not.

        :raises AuthorizationExpired: if that has to be asked first
        :raises ServerError: if the client may not do it
        """
        if self.state is None:
            raise ServerError("E_AUTH_FIRST", f"AUTH required before {command}")
        if anyio.current_time() > self._expires_at and not self._is_fresh:
            raise AuthorizationExpired
        self._is_fresh = False
        if not self.state.allows(topic, channel):
            raise ServerError("E_UNAUTHORIZED", f'AUTH failed for {command} on "{topic}" "{channel}"')

    async def _ask(self) -> AuthState:
        asked = self._describe(self._secret)
        try:
            self.state = await self._source(asked)
        except NoAuthorization as failure:
            # The log alone says why: an untrusted client shall not learn of the servers behind nsqd.
            _logger.warning("AUTH of a client at %s failed: %s", asked.remote_ip or "a unix socket", failure)
            raise ServerError("E_AUTH_FAILED", "AUTH failed") from None
        self._expires_at = anyio.current_time() + self.state.ttl
        return self.state
