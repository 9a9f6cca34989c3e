"""``/config/:opt`` of the embedded nsqd: all flags of nsqd 1.3.0, two of which can be changed."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Sequence
from typing import cast

from ...address import Address
from ...serving.nsq_api import Refusal
from ..identity import NsqdIdentity
from .nsqd_options import NsqdOptions
from .nsqd_stats import go_number
from .statsd import statsd_prefix

_logger = logging.getLogger(__name__)

_NANOSECONDS = 1_000_000_000
_TLS_REQUIRED: dict[bool | str, int] = {False: 0, "tcp-https": 1, True: 2}
_TLS_VERSIONS = {"tls1.0": 0x0301, "tls1.1": 0x0302, "tls1.2": 0x0303, "tls1.3": 0x0304}
_LOG_LEVELS = {"debug": 1, "info": 2, "warn": 3, "error": 4, "fatal": 5}


class NsqdConfig:
    """The options under nsqd's names, with durations in nanoseconds.

    ``log_level`` has no effect: the application configures logging.

    :param tcp_address: the requested address, in which port 0 stays 0; likewise ``http_address`` and
        ``https_address``
    :param set_lookupds: called with the new TCP addresses of nsqlookupds
    """

    def __init__(
        self,
        options: NsqdOptions,
        *,
        tcp_address: str,
        http_address: str,
        https_address: str,
        identity: NsqdIdentity,
        node: int,
        data_path: str,
        lookupd_tcp_addresses: Sequence[str],
        set_lookupds: Callable[[Sequence[str]], None],
    ) -> None:
        self._set_lookupds = set_lookupds
        self._values: dict[str, object] = {
            "id": node,
            "log_level": _LOG_LEVELS["info"],
            "log_prefix": "[nsqd] ",
            "tcp_address": tcp_address,
            "http_address": http_address,
            "https_address": https_address,
            "broadcast_address": identity.broadcast_address,
            "broadcast_tcp_port": identity.broadcast_tcp_port,
            "broadcast_http_port": identity.broadcast_http_port,
            "nsqlookupd_tcp_addresses": list(lookupd_tcp_addresses),
            "auth_http_addresses": list(options.auth_http_addresses),
            "http_client_connect_timeout": _nanoseconds(options.http_client_connect_timeout),
            "http_client_request_timeout": _nanoseconds(options.http_client_request_timeout),
            "data_path": data_path,
            "mem_queue_size": options.mem_queue_size,
            "max_bytes_per_file": options.max_bytes_per_file,
            "sync_every": options.sync_every,
            "sync_timeout": _nanoseconds(options.sync_timeout),
            "queue_scan_selection_count": 20,
            "queue_scan_worker_pool_max": 4,
            "msg_timeout": _nanoseconds(options.msg_timeout),
            "max_msg_timeout": _nanoseconds(options.max_msg_timeout),
            "max_msg_size": options.max_msg_size,
            "max_body_size": options.max_body_size,
            "max_req_timeout": _nanoseconds(options.max_req_timeout),
            "max_heartbeat_interval": _nanoseconds(options.max_heartbeat_interval),
            "max_rdy_count": options.max_rdy_count,
            "max_output_buffer_size": options.max_output_buffer_size,
            "max_output_buffer_timeout": _nanoseconds(options.max_output_buffer_timeout),
            "min_output_buffer_timeout": _nanoseconds(options.min_output_buffer_timeout),
            "output_buffer_timeout": _nanoseconds(options.output_buffer_timeout),
            "max_channel_consumers": options.max_channel_consumers,
            "statsd_address": options.statsd_address or "",
            "statsd_prefix": statsd_prefix(options.statsd_prefix, identity),
            "statsd_interval": _nanoseconds(options.statsd_interval),
            "statsd_mem_stats": options.statsd_mem_stats,
            "statsd_udp_packet_size": options.statsd_udp_packet_size,
            "statsd_exclude_ephemeral": options.statsd_exclude_ephemeral,
            "e2e_processing_latency_window_time": _nanoseconds(options.e2e_processing_latency_window_time),
            "e2e_processing_latency_percentiles": list(
                map(go_number, options.e2e_processing_latency_percentiles)
            ),
            "tls_cert": os.fspath(options.tls_cert or ""),
            "tls_key": os.fspath(options.tls_key or ""),
            "tls_client_auth_policy": options.tls_client_auth_policy or "",
            "tls_root_ca_file": os.fspath(options.tls_root_ca_file or ""),
            "tls_required": _TLS_REQUIRED[options.requires_tls],
            "tls_min_version": _TLS_VERSIONS[options.tls_min_version],
            "deflate": options.deflate,
            "max_deflate_level": options.max_deflate_level,
            "snappy": options.snappy,
            **options.reported,
        }
        level = options.reported.get("log_level")
        if isinstance(level, str):
            self._values["log_level"] = _LOG_LEVELS[level]

    def get(self, name: str) -> object:
        """Return the value of an option.

        :raises Refusal: 400 ``INVALID_OPTION`` if nsqd has no such option
        """
        if name not in self._values:
            raise Refusal(400, "INVALID_OPTION")
        return self._values[name]

    def put(self, name: str, body: bytes) -> None:
        """Change an option.

        :raises Refusal: 400 ``INVALID_OPTION`` if nsqd cannot change it, or ``INVALID_VALUE``
        """
        if name == "log_level":
            level = _LOG_LEVELS.get(body.decode("utf-8", "replace").lower())
            if level is None:
                raise Refusal(400, "INVALID_VALUE")
            self._values[name] = level
        elif name == "nsqlookupd_tcp_addresses":
            addresses = _addresses(body)
            usable = [address for address in addresses or () if Address.is_valid(address)]
            if len(usable) < len(addresses or ()):
                # nsqd would also try, again and again, to connect to the invalid addresses.
                _logger.warning("nsqlookupd_tcp_addresses: those that are not host:port are ignored")
            self._set_lookupds(usable)
            self._values[name] = addresses
        else:
            raise Refusal(400, "INVALID_OPTION")


def _addresses(body: bytes) -> list[str] | None:
    """Parse the list of strings as Go does; like nsqd, accept any string."""
    try:
        value: object = json.loads(body.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise Refusal(400, "INVALID_VALUE") from None
    if value is None:
        return None
    if not isinstance(value, list):
        raise Refusal(400, "INVALID_VALUE")
    addresses: list[str] = []
    for element in cast("list[object]", value):
        if element is not None and not isinstance(element, str):
            raise Refusal(400, "INVALID_VALUE")
        addresses.append(element or "")
    return addresses


def _nanoseconds(seconds: float) -> int:
    return round(seconds * _NANOSECONDS)
