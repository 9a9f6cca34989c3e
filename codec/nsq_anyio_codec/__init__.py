"""The compiled codec of nsq-anyio, which uses it where it is installed. It has no API of its own.

:data INTERFACE: what nsq-anyio and this package agree on; nsq-anyio refuses any other number than its own
"""

from ._codec import FrameDecoder, encode_bodies, message_offsets, plain_size

__all__ = ["INTERFACE", "FrameDecoder", "encode_bodies", "message_offsets", "plain_size"]

INTERFACE = 3
