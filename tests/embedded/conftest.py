"""What the tests of the embedded servers share."""

from tests.tls_files import tls_files

__all__ = ["tls_files"]
