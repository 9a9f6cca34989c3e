"""An auth server as nsqd asks it (``--auth-http-address``), in a thread: it serves every event loop alike.

::

    with auth_server({"secret": Account(identity="me")}) as auth:
        async with real_nsqd(flags=[f"--auth-http-address={auth.address}"]):
            ...
        assert auth.requests[0].secret == "secret"

nsqd sends the secret in the query of ``GET /auth`` and gets JSON: an identity, permissions, and for how many
seconds they hold. It asks again at the first SUB or PUB after that.
"""

import json
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Literal
from urllib.parse import parse_qs, urlsplit

POLL_INTERVAL = 0.01
"""Seconds that the end of the block may take."""

Permission = Literal["subscribe", "publish"]


@dataclass(frozen=True, slots=True)
class Grant:
    """What is allowed, on which topics and channels (regular expressions; a publish is on channel "")."""

    topic: str = ".*"
    channels: tuple[str, ...] = (".*",)
    permissions: tuple[Permission, ...] = ("subscribe", "publish")


@dataclass(frozen=True, slots=True)
class Account:
    """The answer for a secret; ``ttl`` in seconds."""

    identity: str
    grants: tuple[Grant, ...] = (Grant(),)
    identity_url: str = ""
    ttl: int = 3600

    def to_json(self) -> bytes:
        authorizations = [
            {"topic": grant.topic, "channels": grant.channels, "permissions": grant.permissions}
            for grant in self.grants
        ]
        answer = {
            "identity": self.identity,
            "identity_url": self.identity_url,
            "ttl": self.ttl,
            "authorizations": authorizations,
        }
        return json.dumps(answer).encode()


@dataclass(frozen=True, slots=True)
class AuthRequest:
    """What nsqd told of a client."""

    secret: str
    remote_ip: str
    tls: bool
    common_name: str


class AuthServer:
    """A running auth server; see the module.

    :ivar address: ``host:port``
    :ivar accounts: by secret; a test may change them, and an unknown secret is refused with 403
    :ivar requests: all that came, in order
    :ivar broken: whether every request fails with 500
    """

    def __init__(self, accounts: Mapping[str, Account]) -> None:
        self.address = ""
        self.accounts = dict(accounts)
        self.requests: list[AuthRequest] = []
        self.broken = False

    def answer(self, target: str) -> tuple[int, bytes]:
        """The status and the body for a request's target."""
        url = urlsplit(target)
        if url.path != "/auth":
            return 404, b"NOT_FOUND"
        query = {name: values[0] for name, values in parse_qs(url.query, strict_parsing=True).items()}
        secret = query["secret"]
        self.requests.append(
            AuthRequest(
                secret,
                query.get("remote_ip", ""),
                {"true": True, "false": False}[query["tls"]],
                query.get("common_name", ""),
            )
        )
        if self.broken:
            return 500, b"BROKEN"
        account = self.accounts.get(secret)
        return (403, b"NOT_AUTHORIZED") if account is None else (200, account.to_json())


@contextmanager
def auth_server(accounts: Mapping[str, Account]) -> Generator[AuthServer]:
    """Answer on a free port of 127.0.0.1 for the length of the block."""
    auth = AuthServer(accounts)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, body = auth.answer(self.path)
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Keep standard error, and the secrets in the target, to itself."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        auth.address = f"127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(POLL_INTERVAL,), name="auth server")
        thread.start()
        try:
            yield auth
        finally:
            server.shutdown()
            thread.join()
