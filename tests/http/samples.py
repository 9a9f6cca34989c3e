"""Replies as nsqd and nsqlookupd 1.3.0 send them."""

from typing import Any

PRODUCER: dict[str, Any] = {
    "remote_address": "127.0.0.1:52896",
    "hostname": "vm",
    "broadcast_address": "nsqd-1.example",
    "tcp_port": 4150,
    "http_port": 4151,
    "version": "1.3.0",
}

LOOKUP: dict[str, Any] = {"channels": ["archive", "metrics"], "producers": [PRODUCER]}

NODES: dict[str, Any] = {
    "producers": [{**PRODUCER, "tombstones": [False, True], "topics": ["clicks", "views"]}]
}

DEBUG: dict[str, Any] = {
    "channel:clicks:archive": [
        {
            "broadcast_address": "nsqd-1.example",
            "hostname": "vm",
            "http_port": 4151,
            "id": "127.0.0.1:52896",
            "last_update": 1795223857191267527,
            "tcp_port": 4150,
            "tombstoned": False,
            "tombstoned_at": -6795364578871345152,
            "version": "1.3.0",
        }
    ]
}

INFO: dict[str, Any] = {
    "version": "1.3.0",
    "broadcast_address": "nsqd-1.example",
    "hostname": "vm",
    "http_port": 4151,
    "tcp_port": -1,
    "start_time": 1795223855,
    "max_heartbeat_interval": 60_000_000_000,
    "max_output_buffer_size": 65536,
    "max_output_buffer_timeout": 30_000_000_000,
    "max_deflate_level": 6,
}

LATENCY: dict[str, Any] = {"count": 2, "percentiles": [{"quantile": 0.99, "value": 1_500_000}]}

CLIENT: dict[str, Any] = {
    "client_id": "worker",
    "hostname": "worker.example",
    "version": "V2",
    "remote_address": "127.0.0.1:40000",
    "state": 3,
    "ready_count": 200,
    "in_flight_count": 7,
    "message_count": 1000,
    "finish_count": 990,
    "requeue_count": 3,
    "connect_ts": 1795223856,
    "sample_rate": 0,
    "deflate": False,
    "snappy": True,
    "user_agent": "nsq-anyio/0.1.0",
    "authed": True,
    "auth_identity": "someone",
    "auth_identity_url": "https://auth.example/someone",
    "pub_counts": [{"topic": "clicks", "count": 12}],
    "tls": True,
    "tls_cipher_suite": "TLS_AES_128_GCM_SHA256",
    "tls_version": "TLS1.3",
    "tls_negotiated_protocol": "",
    "tls_negotiated_protocol_is_mutual": True,
}

CHANNEL: dict[str, Any] = {
    "channel_name": "archive",
    "depth": 5,
    "backend_depth": 4,
    "in_flight_count": 7,
    "deferred_count": 1,
    "message_count": 1017,
    "requeue_count": 3,
    "timeout_count": 2,
    "client_count": 1,
    "clients": [CLIENT],
    "paused": True,
    "e2e_processing_latency": LATENCY,
}

TOPIC: dict[str, Any] = {
    "topic_name": "clicks",
    "channels": [CHANNEL],
    "depth": 9,
    "backend_depth": 8,
    "message_count": 2**64 - 1,
    "message_bytes": 100_000,
    "paused": False,
    "e2e_processing_latency": {"count": 0, "percentiles": None},
}

MEMORY: dict[str, Any] = {
    "heap_objects": 3404,
    "heap_idle_bytes": 2138112,
    "heap_in_use_bytes": 1564672,
    "heap_released_bytes": 2105344,
    "gc_pause_usec_100": 30,
    "gc_pause_usec_99": 20,
    "gc_pause_usec_95": 10,
    "next_gc_bytes": 4194304,
    "gc_total_runs": 1,
}

STATS: dict[str, Any] = {
    "version": "1.3.0",
    "health": "OK",
    "start_time": 1795223855,
    "topics": [TOPIC],
    "memory": MEMORY,
    "producers": [CLIENT],
}
