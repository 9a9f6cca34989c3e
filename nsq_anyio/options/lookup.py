"""The options of polling nsqlookupds, which consumers and producers have in common."""

import ssl
from typing import Annotated, TypeAlias

from .kinds import SAME, Flag, Ratio, Seconds
from .tls import TLS, TLSOptions

__all__ = [
    "LookupdAuthorization",
    "LookupdPollInterval",
    "LookupdPollJitter",
    "LookupdPollTimeout",
    "LookupdTLS",
]

LookupdPollInterval: TypeAlias = Annotated[
    float,
    Seconds(
        "the time between polls of all nsqlookupds; until one lists an nsqd, polls follow each other more "
        "quickly, at first after 0.1 s",
        low=0.01,
        go=SAME,
        spark="",
    ),
]
LookupdPollJitter: TypeAlias = Annotated[
    float,
    Ratio(
        "the fraction of the interval by which each poll is randomly shifted",
        low=0,
        high=1,
        go=SAME,
        spark="",
    ),
]
LookupdPollTimeout: TypeAlias = Annotated[
    float, Seconds("the time for one nsqlookupd's answer", low=0.001, go=SAME, spark="")
]
LookupdTLS: TypeAlias = Annotated[
    bool | ssl.SSLContext | TLSOptions,
    TLS(
        "how https nsqlookupds are verified, as ``ConnectionOptions.tls``; False and True trust the "
        "system's authorities",
        spark="",
    ),
]
LookupdAuthorization: TypeAlias = Annotated[
    bool,
    Flag(
        "whether nsqlookupds are sent the connection's ``auth_secret``, as ``Authorization: Bearer``",
        # go-nsq's Config.LookupdAuthorization, which true switches on despite the name of the option.
        go="skip_lookupd_authorization",
        spark="",
    ),
]
