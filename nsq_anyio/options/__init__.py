"""Options, validated on construction. All durations are in seconds, all sizes in bytes.

Where nsqd 1.3.0 has a fixed range, the same range applies here. A limit that depends on nsqd's configuration
(the longest heartbeat interval, for example) is checked by nsqd, whose refusal is raised.

Each option is declared once, at its field; `nsq_anyio.options.declaration` derives everything else from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy_imports import importer

if TYPE_CHECKING:
    from collections.abc import Callable

    from .connection import AddressMap, AuthSecret, ConnectionOptions, Dialer, default_user_agent
    from .consumer import ConsumerOptions
    from .producer import ProducerOptions, PublishMode
    from .tls import TLSOptions

__all__ = [
    "AddressMap",
    "AuthSecret",
    "ConnectionOptions",
    "ConsumerOptions",
    "Dialer",
    "ProducerOptions",
    "PublishMode",
    "TLSOptions",
    "default_user_agent",
]

# Lazily, because a consumer needs no options of producers, and a producer none of consumers.
__getattr__: Callable[[str], object] = importer(
    __name__,
    {
        ".connection": (
            "AddressMap",
            "AuthSecret",
            "ConnectionOptions",
            "Dialer",
            "default_user_agent",
        ),
        ".consumer": ("ConsumerOptions",),
        ".producer": (
            "ProducerOptions",
            "PublishMode",
        ),
        ".tls": ("TLSOptions",),
    },
)
