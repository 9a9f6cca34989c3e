"""Requests to auth servers, as nsqd 1.3.0 sends them, except that redirects are not followed.

The secret is in the query of the URL, so no log line and no error here contains a query.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, cast
from urllib.parse import SplitResult, urlencode, urlsplit

import anyio
import httpx

from ...address import host_port
from ...errors import InvalidOption
from ...exceptions import first_text
from ...http.reply import is_object, parse_json
from ...http.transport import make_transport, read_body
from ...http.url import ServerURL
from ...re2_pattern import check_patterns_work
from .auth import Authorization, AuthRequest, AuthState, NoAuthorization
from .nsqd_options import NsqdOptions
from .server_tls import auth_context

_MAX_REPLY_SIZE = 1024 * 1024
_OK = 200
_FORBIDDEN = 403


class AuthServers:
    """The ``auth_http_addresses`` of one nsqd.

    :raises InvalidOption: if ``tls_root_ca_file`` cannot be used, or google-re2 is not installed, which
        the answers of auth servers require
    """

    def __init__(self, options: NsqdOptions) -> None:
        check_patterns_work()
        self._urls = [
            (ServerURL.parse(address), "" if "://" in address else "/auth")
            for address in options.auth_http_addresses
        ]
        self._connect_timeout = options.http_client_connect_timeout
        self._request_timeout = options.http_client_request_timeout
        self._ssl_context = auth_context(options)

    async def __call__(self, request: AuthRequest) -> AuthState:
        """Ask the servers in turn until one answers.

        :raises NoAuthorization: if none does
        """
        failures: list[str] = []
        start = random.randrange(len(self._urls))
        for url, path in self._urls[start:] + self._urls[:start]:
            try:
                return await self._ask(url, path, request)
            except NoAuthorization as failure:
                failures.append(f"failed to auth against {url.shown}: {failure}")
        raise NoAuthorization("; ".join(failures))

    async def _ask(self, url: ServerURL, path: str, request: AuthRequest) -> AuthState:
        query = urlencode(
            {
                "common_name": request.common_name,
                "remote_ip": request.remote_ip,
                "secret": request.secret,
                "tls": "true" if request.tls else "false",
            },
            errors="surrogateescape",
        )
        target, _ = url.endpoint(path, {})
        target = f"{target}{'&' if url.query else '?'}{query}"
        headers = {"Accept": "application/vnd.nsq; version=1.0"}
        if url.authorization is not None:
            headers["Authorization"] = url.authorization
        with anyio.move_on_after(self._request_timeout):
            status, body = await self._get(target, headers, url.socket)
            if status == _FORBIDDEN and not url.is_https:
                # An nsqd that requires TLS answers a plain request like this, and names the HTTPS port.
                https = _https_target(urlsplit(target), body)
                if https is not None:
                    status, body = await self._get(https, headers, None)
            if status != _OK:
                raise NoAuthorization(f"it answered with {status}")
            return _auth_state(body)
        raise NoAuthorization(f"no answer within http_client_request_timeout={self._request_timeout:g} s")

    async def _get(self, target: str, headers: dict[str, str], socket: str | None) -> tuple[int, bytes]:
        timeouts = {"connect": self._connect_timeout}
        request = httpx.Request("GET", target, headers=headers, extensions={"timeout": timeouts})
        try:
            # httpx's client would log the URL; a transport does not. One for each request, as in nsqd.
            async with make_transport(ssl_context=self._ssl_context, socket=socket) as transport:
                response = await transport.handle_async_request(request)
                try:
                    body = await read_body(response, response.aiter_raw(), _MAX_REPLY_SIZE)
                finally:
                    await response.aclose()
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise NoAuthorization(f"cannot connect: {first_text(error)}") from None
        except (httpx.RequestError, httpx.StreamError) as error:
            raise NoAuthorization(type(error).__name__) from None
        except OSError as error:
            # httpx does not map the TLS alert that refuses a client without a certificate.
            raise NoAuthorization(f"the connection broke: {error}") from None
        if body is None:
            raise NoAuthorization(f"its answer exceeds {_MAX_REPLY_SIZE} bytes")
        return response.status_code, body


def _https_target(target: SplitResult, body: bytes) -> str | None:
    try:
        port = _fields(parse_json(body)).get("https_port")
    except ValueError:
        return None
    if type(port) is not int or not 0 < port <= 65535:
        return None
    return target._replace(scheme="https", netloc=host_port(target.hostname or "", port)).geturl()


def _auth_state(body: bytes) -> AuthState:
    """Read the JSON as Go does: names match in any case, and null or missing is empty."""
    try:
        fields = _fields(parse_json(body))
        ttl = _typed(fields, "ttl", int, 0)
        if ttl <= 0:
            raise ValueError(f"invalid TTL {ttl} (must be >0)")
        return AuthState(
            authorizations=tuple(map(_authorization, _list(fields, "authorizations"))),
            identity=_typed(fields, "identity", str, ""),
            identity_url=_typed(fields, "identity_url", str, ""),
            ttl=ttl,
        )
    except InvalidOption as error:
        raise NoAuthorization(str(error)) from None
    except ValueError as error:
        raise NoAuthorization(f"its answer is not valid: {error}") from None


def _authorization(value: object) -> Authorization:
    fields = _fields(value)
    return Authorization(
        topic=_typed(fields, "topic", str, ""),
        channels=_strings(fields, "channels"),
        permissions=cast("Any", _strings(fields, "permissions")),  # `Authorization` checks them
    )


def _fields(value: object) -> dict[str, Any]:
    if not is_object(value):
        raise ValueError("not an object")
    return {name.lower(): item for name, item in value.items() if item is not None}


def _typed(fields: dict[str, Any], name: str, kind: type[Any], default: Any) -> Any:
    value = fields.get(name, default)
    if type(value) is not kind:  # exactly, because bool is a subclass of int
        raise ValueError(f"{name} is not of type {kind.__name__}")
    return value


def _list(fields: dict[str, Any], name: str) -> Sequence[Any]:
    return cast("list[Any]", _typed(fields, name, list, []))


def _strings(fields: dict[str, Any], name: str) -> tuple[str, ...]:
    values = _list(fields, name)
    if not all(isinstance(value, str) for value in values):
        raise ValueError(f"{name} has elements that are not strings")
    return tuple(values)
