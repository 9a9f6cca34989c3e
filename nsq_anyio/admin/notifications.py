"""Notifications of actions, posted to an HTTP server as nsqadmin does. No action waits for them."""

from __future__ import annotations

import json
import logging
import socket
import time
from base64 import b64decode
from binascii import Error as Base64Error
from collections import deque
from urllib.parse import quote

import anyio
import httpx

from ..http.transport import make_transport
from ..http.url import ServerURL
from ..serving.http_messages import Request

_log = logging.getLogger(__name__)

MAX_QUEUED = 1000
"""The most notifications that wait. Further ones are dropped and logged."""

_CLOSE_TIME = 1.0
_SAFE_IN_PATH = "$&+,/:;=@"


class Notifications:
    """Queues notifications, and posts them one after the other.

    :param endpoint: the URL; None to post nothing
    :param timeout: seconds for each
    """

    def __init__(self, endpoint: str | None, timeout: float) -> None:
        self._url = None if endpoint is None else ServerURL.parse(endpoint)
        self._timeout = timeout
        self._queue: deque[bytes] = deque()
        self._noted = anyio.Event()
        self._all_posted = anyio.Event()
        self._all_posted.set()

    def note(self, action: str, topic: str, channel: str, node: str, request: Request) -> None:
        """Queue a notification; drop it if too many wait."""
        if self._url is None:
            return
        if len(self._queue) >= MAX_QUEUED:
            _log.error("%d notifications wait: that of %s %s is dropped", MAX_QUEUED, action, topic)
            return
        self._queue.append(_encoded(action, topic, channel, node, request))
        self._noted.set()
        if self._all_posted.is_set():
            self._all_posted = anyio.Event()

    async def run(self) -> None:
        """Post notifications as they come, until cancelled."""
        while True:
            self._noted = anyio.Event()
            await self.flush()
            await self._noted.wait()

    async def flush(self) -> None:
        """Post the queued notifications. Failures are logged."""
        if self._url is None or not self._queue:
            return
        async with make_transport(socket=self._url.socket) as transport:
            while self._queue:
                await self._post(transport, self._url, self._queue.popleft())
        self._all_posted.set()

    async def close(self) -> None:
        """Wait for at most a second until `run` has posted all notifications."""
        with anyio.move_on_after(_CLOSE_TIME, shield=True):
            await self._all_posted.wait()
        if not self._all_posted.is_set():
            _log.error("%d notifications may not have been posted", len(self._queue) + 1)

    async def _post(self, transport: httpx.AsyncBaseTransport, endpoint: ServerURL, body: bytes) -> None:
        url, shown = endpoint.endpoint("", {})
        headers = {"Content-Type": "application/json"}
        if endpoint.authorization is not None:
            headers["Authorization"] = endpoint.authorization
        failure = f"no answer within {self._timeout:g} s"
        with anyio.move_on_after(self._timeout):
            try:
                request = httpx.Request("POST", url, headers=headers, content=body)
                response = await transport.handle_async_request(request)
                await response.aclose()
                failure = "" if response.is_success else f"status {response.status_code}"
            except (httpx.RequestError, httpx.StreamError, OSError) as error:
                failure = str(error) or type(error).__name__
        if failure:
            _log.error("a notification was not accepted by %s: %s", shown, failure)


def _encoded(action: str, topic: str, channel: str, node: str, request: Request) -> bytes:
    target = request.target
    is_https = request.scheme == "https" or request.headers.get("x-scheme") == "https"
    url = f"{'https' if is_https else 'http'}://{request.headers.get('host', '')}"
    url += target.origin + quote(target.path, safe=_SAFE_IN_PATH, errors="surrogateescape")
    user = _basic_user(request.headers.get("authorization", ""))
    fields: dict[str, object] = {
        "action": action,
        "topic": topic,
        **({"channel": channel} if channel else {}),
        **({"node": node} if node else {}),
        "timestamp": int(time.time()),
        **({"user": user} if user else {}),
        "remote_ip": request.remote,
        "user_agent": request.headers.get("user-agent", ""),
        "url": f"{url}?{target.query}" if target.query else url,
        "via": socket.gethostname(),
    }
    return json.dumps(fields).encode()


def _basic_user(authorization: str) -> str:
    kind, _, pair = authorization.partition(" ")
    if kind != "Basic":
        return ""
    try:
        user, colon, _ = b64decode(pair, validate=True).decode("utf-8", "replace").partition(":")
    except (Base64Error, ValueError):
        return ""
    return user if colon else ""
