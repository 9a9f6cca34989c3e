"""The store of ids in Redis or Valkey, for the consumers of many machines."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from ..errors import InvalidOption
from ..options.checks import check_seconds
from .records import DONE, Operation, answer_for, held_by, kept_for
from .store import Claimed
from .store_thread import StoreThread

_PATIENCE = 5.0
"""The seconds that a connection, a command or its answer may take."""

# KEYS[1]: the id; ARGV: the values of the claim, held and kept, and milliseconds.
_CLAIM = """
local found = redis.call('GET', KEYS[1])
if found and found ~= ARGV[1] and found ~= ARGV[2] then
    return {found, redis.call('PTTL', KEYS[1])}
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[3])
return {'', 0}
"""
_RELEASE = """
if redis.call('GET', KEYS[1]) == ARGV[1] then
    if ARGV[3] == '0' then
        redis.call('DEL', KEYS[1])
    else
        redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
    end
end
"""


class RedisStore(StoreThread):
    """Ids in Redis or Valkey, at one address. It serves the consumers of any number of machines.

    The store uses redis-py's plain client in a thread, and not its asyncio client: that one would need a
    thread with an event loop of its own wherever the program runs on Trio, and the calls of a plain client
    that gather while another is under way need a single round trip together.

    Each id is a key that Redis lets expire, so their number is bounded by the window. If Redis has a
    ``maxmemory`` with ``noeviction``, a full Redis refuses claims, and the messages wait; with another
    policy, Redis forgets ids before the end of the window. An id takes about 200 bytes.

    :param url: such as ``redis://127.0.0.1:6379/0``, ``rediss://`` for TLS, or ``unix://`` with a path
    :param window: the seconds for which a handled message is remembered, 0.001 to 1,000,000,000; default 3600
    :param prefix: the beginning of each key; default ``nsq:``
    :raises InvalidOption: if a value is not valid, or redis-py is not installed
    """

    def __init__(self, url: str, *, window: float = 3600.0, prefix: str = "nsq:") -> None:
        check_seconds("window", window, 0.001, 1_000_000_000)  # Redis has 64 bits for milliseconds
        if not isinstance(prefix, str):
            raise InvalidOption(f"prefix={prefix!r} is not valid: use text")
        try:
            connection = _redis().connection
        except ImportError as error:
            raise InvalidOption(
                "RedisStore needs redis-py, which is not installed: pip install 'nsq-anyio[redis]'"
            ) from error
        try:
            self._parts: dict[str, Any] = connection.parse_url(url)
        except (ValueError, AttributeError, TypeError) as error:
            raise InvalidOption("url is not valid: use one such as redis://127.0.0.1:6379/0") from error
        self._url = url
        self._prefix = prefix
        super().__init__(window)

    def __repr__(self) -> str:
        parts = self._parts  # without the password
        place = parts.get("path") or f"{parts.get('host', 'localhost')}:{parts.get('port', 6379)}"
        return f"<RedisStore {place}>"

    def _connect(self) -> Any:
        redis = _redis()
        no_retry = redis.retry.Retry(redis.backoff.NoBackoff(), 0)  # the thread tries again itself
        return redis.Redis.from_url(
            self._url,
            socket_timeout=_PATIENCE,
            socket_connect_timeout=_PATIENCE,
            retry=no_retry,
            decode_responses=True,
        )

    def _perform(self, connection: Any, operations: list[Operation]) -> list[Claimed]:
        pipeline = connection.pipeline(transaction=False)
        for operation in operations:
            claim = operation.claim
            key, milliseconds = self._prefix + claim.id, round(operation.seconds * 1000)
            if operation.kind == "done":
                pipeline.set(key, DONE, px=max(milliseconds, 1))
            else:
                if operation.kind == "claim":
                    script, milliseconds = _CLAIM, max(milliseconds, 1)
                else:
                    script = _RELEASE
                pipeline.eval(script, 1, key, held_by(claim), kept_for(claim), milliseconds)
        replies = pipeline.execute()
        return [
            _answer(reply) if operation.kind == "claim" else Claimed("new")
            for operation, reply in zip(operations, replies, strict=True)
        ]

    def _close(self, connection: Any) -> None:
        with suppress(OSError):  # the connection may be broken
            connection.close()


def _redis() -> Any:
    import redis  # noqa: PLC0415 - an extra

    return redis


def _answer(reply: Any) -> Claimed:
    value, milliseconds = reply
    return answer_for(value, max(milliseconds, 0) / 1000) if value else Claimed("new")
