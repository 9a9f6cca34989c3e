"""The options of the embedded nsqd, named and defaulted like nsqd's flags."""

from __future__ import annotations

from dataclasses import dataclass

from ..checks import check_integer, check_seconds
from ..errors import InvalidOption
from ..protocol.mpub_bodies import Limits

__all__ = ["NsqdOptions"]

_DAY = 86_400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NsqdOptions:
    """What a flag of nsqd would set. All durations are seconds, all sizes bytes.

    :param msg_timeout: until an unanswered message goes back to its channel, more than 0; default 60
    :param max_msg_timeout: the most that a client may ask for, and that TOUCH extends to; default 900
    :param max_req_timeout: the longest delay of REQ (longer ones are shortened) and DPUB (longer ones are
        refused); default 3600
    :param max_rdy_count: the highest RDY, 1 or more; default 2500
    :param max_msg_size: of one message; default 1 MiB
    :param max_body_size: of one command; default 5 MiB
    :param mem_queue_size: messages that an ephemeral topic or channel holds, 1 or more: like nsqd it drops
        what comes above. Others are not bounded: where nsqd goes on on disk, this one goes on in memory, and
        reports the excess as ``backend_depth`` as nsqd does. Default 10000
    :param client_timeout: twice the default heartbeat interval; default 60
    :param max_heartbeat_interval: the most that a client may ask for; default 60
    :param output_buffer_timeout: what IDENTIFY reports when the client does not set one; like the sizes below
        it is negotiated and has no other effect, as output is sent at once; default 0.25
    :param min_output_buffer_timeout: the least that a client may ask for; default 0.025
    :param max_output_buffer_timeout: the most that a client may ask for; default 30
    :param max_output_buffer_size: the most that a client may ask for, 64 or more; default 64 KiB
    :param max_deflate_level: 1 to 9, reported only; default 6
    :param max_channel_consumers: SUBs that a channel takes; 0 is no limit, which is the default
    :raises InvalidOption: if a value is out of range
    """

    msg_timeout: float = 60.0
    max_msg_timeout: float = 900.0
    max_req_timeout: float = 3600.0
    max_rdy_count: int = 2500
    max_msg_size: int = 1024 * 1024
    max_body_size: int = 5 * 1024 * 1024
    mem_queue_size: int = 10_000
    client_timeout: float = 60.0
    max_heartbeat_interval: float = 60.0
    output_buffer_timeout: float = 0.25
    min_output_buffer_timeout: float = 0.025
    max_output_buffer_timeout: float = 30.0
    max_output_buffer_size: int = 64 * 1024
    max_deflate_level: int = 6
    max_channel_consumers: int = 0

    def __post_init__(self) -> None:
        for option in ("msg_timeout", "max_msg_timeout", "client_timeout", "max_heartbeat_interval"):
            check_seconds(option, getattr(self, option), 0.001, _DAY)
        for option in (
            "max_req_timeout",
            "output_buffer_timeout",
            "min_output_buffer_timeout",
            "max_output_buffer_timeout",
        ):
            check_seconds(option, getattr(self, option), 0, _DAY)
        for option in ("max_rdy_count", "max_msg_size", "mem_queue_size"):
            check_integer(option, getattr(self, option), 1, 2**31 - 1)
        check_integer("max_body_size", self.max_body_size, 16, 2**31 - 1)
        check_integer("max_output_buffer_size", self.max_output_buffer_size, 64, 2**31 - 1)
        check_integer("max_deflate_level", self.max_deflate_level, 1, 9)
        check_integer("max_channel_consumers", self.max_channel_consumers, 0)
        if self.msg_timeout > self.max_msg_timeout:
            raise InvalidOption(
                f"msg_timeout={self.msg_timeout!r} is not valid: use at most "
                f"max_msg_timeout={self.max_msg_timeout!r} (seconds)"
            )

    @property
    def limits(self) -> Limits:
        """What the command decoder has to check."""
        return Limits(
            max_msg_size=self.max_msg_size,
            max_body_size=self.max_body_size,
            max_rdy_count=self.max_rdy_count,
            max_defer_ms=int(self.max_req_timeout * 1000),
        )
