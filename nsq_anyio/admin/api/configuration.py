"""nsqadmin's ``/config``: options to read, and two that can be set while it runs."""

from __future__ import annotations

import logging
from typing import cast

from ...errors import InvalidOption
from ...http.reply import parse_json
from ...http.url import ServerURL
from ...serving.nsq_api import Refusal
from ..options import AdminOptions
from ..upstream import Upstream

MAX_VALUE_SIZE = 1024 * 1024
"""The most bytes of a new value, as in nsqadmin."""

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
    "fatal": logging.CRITICAL,
}
_logger = logging.getLogger("nsq_anyio")


class Configuration:
    """The options by nsqadmin's names."""

    def __init__(self, options: AdminOptions, upstream: Upstream, nsqds: tuple[str, ...]) -> None:
        self._upstream = upstream
        self._values: dict[str, object] = {
            "base_path": options.base or "/",
            "acl_http_header": options.acl_http_header,
            "admin_users": list(options.admin_users),
            "allow_config_from_cidr": options.allow_config_from_cidr,
            "notification_http_endpoint": _shown(options.notification_http_endpoint or ""),
            "nsqd_http_addresses": [_shown(url) for url in nsqds],
            **options.config,
        }

    def get(self, name: str) -> object:
        """Return the value of an option.

        :raises Refusal: 400 ``INVALID_OPTION`` if there is no such option
        """
        if name == "log_level":
            level = _logger.getEffectiveLevel()
            return min(max(level // 10, 1), 5)  # nsqadmin counts from 1, too
        if name == "nsqlookupd_http_addresses":
            return [_shown(url) for url in self._upstream.nsqlookupds]
        if name not in self._values:
            raise Refusal(400, "INVALID_OPTION")
        return self._values[name]

    async def set(self, name: str, value: bytes) -> None:
        """Set an option.

        :raises Refusal: 400 or 413 ``INVALID_VALUE`` if the value is not valid; 400 ``INVALID_OPTION`` if the
            option cannot be set
        """
        if not value or len(value) > MAX_VALUE_SIZE:
            raise Refusal(413, "INVALID_VALUE")
        if name == "log_level":
            level = _LEVELS.get(value.decode("utf-8", "replace").lower())
            if level is None:
                raise Refusal(400, "INVALID_VALUE")
            _logger.setLevel(level)
        elif name == "nsqlookupd_http_addresses":
            await self._set_nsqlookupds(value)
        else:
            raise Refusal(400, "INVALID_OPTION")

    async def _set_nsqlookupds(self, value: bytes) -> None:
        try:
            urls = parse_json(value)
            if not isinstance(urls, list):
                raise InvalidOption("not a list")
            await self._upstream.replace_nsqlookupds([_text(url) for url in cast("list[object]", urls)])
        except (ValueError, InvalidOption):
            raise Refusal(400, "INVALID_VALUE") from None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise InvalidOption("not a string")
    return value


def _shown(url: str) -> str:
    """Return a URL without user, password and query; ``host:port`` as it is."""
    return ServerURL.parse(url).shown if "://" in url else url
