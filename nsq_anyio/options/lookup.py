"""The options of nsqlookupds, for consumers and producers."""

import ssl
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from .kinds import SAME, Flag, Ratio, Seconds
from .tls import TLS, TLSOptions

LookupdPollInterval: TypeAlias = Annotated[float, Seconds(low=0.01, go=SAME, spark="")]


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupdOptions:
    """The options of nsqlookupds in `ConsumerOptions` and `ProducerOptions`."""

    lookupd_poll_interval: LookupdPollInterval = 60.0
    """The time between polls of all nsqlookupds; until one lists an nsqd, polls follow each other more
    quickly, at first after 0.1 s (seconds: 0.01 or more; default 60).
    """
    lookupd_poll_jitter: Annotated[float, Ratio(low=0, high=1, go=SAME, spark="")] = 0.3
    """The fraction of the interval by which each poll is randomly shifted (0 to 1; default 0.3)."""
    lookupd_poll_timeout: Annotated[float, Seconds(low=0.001, go=SAME, spark="")] = 10.0
    """The time for one nsqlookupd's answer (seconds: 0.001 or more; default 10)."""
    lookupd_tls: Annotated[bool | ssl.SSLContext | TLSOptions, TLS(spark="")] = False
    """How nsqlookupds with https are verified, as with ``ConnectionOptions.tls``, except that False, like
    True, trusts the system's authorities (default False).
    """
    lookupd_authorization: Annotated[
        bool,
        # go-nsq's Config.LookupdAuthorization, which true switches on despite the name of the option.
        Flag(go="skip_lookupd_authorization", spark=""),
    ] = False
    """Whether nsqlookupds are sent the connection's ``auth_secret``, as ``Authorization: Bearer`` (default
    False).
    """
