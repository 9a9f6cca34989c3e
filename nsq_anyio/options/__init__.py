"""Options, validated when they are made. All durations are seconds, all sizes bytes.

The ranges are those of nsqd 1.3.0 where nsqd has one; a bound that only nsqd's configuration knows
(the largest heartbeat interval, for example) is left to nsqd, whose refusal is raised.

Each option is declared once, at its field; see `nsq_anyio.options.declaration` for what is derived from it.
"""

from .connection import AuthSecret, ConnectionOptions, Dialer, default_user_agent
from .consumer import ConsumerOptions
from .producer import ProducerOptions, PublishMode
from .tls import TLSOptions

__all__ = [
    "AuthSecret",
    "ConnectionOptions",
    "ConsumerOptions",
    "Dialer",
    "ProducerOptions",
    "PublishMode",
    "TLSOptions",
    "default_user_agent",
]
