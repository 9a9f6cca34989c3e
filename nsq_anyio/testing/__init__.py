"""Tools for tests of programs that use NSQ: messages, servers, faults and virtual time.

Messages for unit tests of handlers need no nsqd, and record how they are answered::

    async def test_a_bad_click_is_discarded() -> None:
        message = nsq.testing.message(b"not JSON")
        assert await nsq.testing.handle(handler, message) == nsq.testing.Discarded("not JSON")

The fixtures of the pytest plugin run servers for tests of whole programs::

    def test_an_order_is_published(nsqd: nsq.testing.Nsqd) -> None:
        place_order(nsqd.tcp_address)
        nsqd.sync.assert_published("orders", b"1")
"""

from __future__ import annotations

from ..lazy_imports import importer

TYPE_CHECKING: bool = False  # as in `typing`: pytest imports this package at its start

if TYPE_CHECKING:
    from collections.abc import Callable

    from .channels import PlainChannels
    from .clusters import Cluster, cluster
    from .faults import Direction, FaultProxy, fault_proxy
    from .handling import handle
    from .in_thread import PlainFaultProxy, cluster_in_thread, fault_proxy_in_thread
    from .real_server import RealServerError
    from .recorded import Answer, Discarded, Finished, RecordedMessage, Requeued, TimedOut, message
    from .servers import Nsqd, Nsqlookupd
    from .virtual_clock import Backend, VirtualTimeLoop, pass_time, virtual_time

__all__ = [
    "Answer",
    "Backend",
    "Cluster",
    "Direction",
    "Discarded",
    "FaultProxy",
    "Finished",
    "Nsqd",
    "Nsqlookupd",
    "PlainChannels",
    "PlainFaultProxy",
    "RealServerError",
    "RecordedMessage",
    "Requeued",
    "TimedOut",
    "VirtualTimeLoop",
    "cluster",
    "cluster_in_thread",
    "fault_proxy",
    "fault_proxy_in_thread",
    "handle",
    "message",
    "pass_time",
    "virtual_time",
]

_NAMES: dict[str, tuple[str, ...]] = {
    ".clusters": ("Cluster", "cluster"),
    ".faults": ("Direction", "FaultProxy", "fault_proxy"),
    ".handling": ("handle",),
    ".in_thread": ("PlainFaultProxy", "cluster_in_thread", "fault_proxy_in_thread"),
    ".channels": ("PlainChannels",),
    ".recorded": (
        *("Answer", "Discarded", "Finished", "Requeued", "TimedOut"),
        *("RecordedMessage", "message"),
    ),
    ".real_server": ("RealServerError",),
    ".servers": ("Nsqd", "Nsqlookupd"),
    ".virtual_clock": ("Backend", "VirtualTimeLoop", "pass_time", "virtual_time"),
}
__getattr__: Callable[[str], object] = importer(__name__, _NAMES)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
