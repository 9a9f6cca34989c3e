"""Certificates for the tests of https."""

from ..tls_files import tls_files

__all__ = ["tls_files"]
