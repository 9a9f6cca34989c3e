"""The embedded nsqlookupd: its server, its TCP protocol, its HTTP API, and the registry behind both."""

from __future__ import annotations

from .nsqlookupd_options import NsqlookupdOptions
from .server import EmbeddedNsqlookupd, nsqlookupd

__all__ = ["EmbeddedNsqlookupd", "NsqlookupdOptions", "nsqlookupd"]
