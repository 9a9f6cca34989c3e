"""The embedded nsqlookupd."""

from __future__ import annotations

from .nsqlookupd_options import NsqlookupdOptions
from .server import EmbeddedNsqlookupd, nsqlookupd

__all__ = ["EmbeddedNsqlookupd", "NsqlookupdOptions", "nsqlookupd"]
