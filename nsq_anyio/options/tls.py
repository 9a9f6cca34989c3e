"""How TLS is set up; the same for nsqd and nsqlookupd."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field
from typing import Literal

from ..checks import check_flag
from ..errors import InvalidOption

__all__ = ["TLSOptions", "check_tls"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TLSOptions:
    """Whom to trust, and how to prove who this client is.

    The files are read once, when `consume` or `produce` is called.

    :param ca_file: certificates of the authorities to trust, PEM; None trusts the system's
    :param certificate_file: this client's certificate with its chain, PEM; None for none
    :param private_key_file: its key, PEM; None when ``certificate_file`` holds it as well
    :param private_key_password: of an encrypted key
    :param minimum_version: the oldest version to speak; default ``TLSv1.2``
    :param server_hostname: the name that the server's certificate must carry; None takes the host that is
        connected to. A unix socket has no host, so this is needed there
    :param verify: whether the server's certificate is checked; without it anybody in between can read and
        change everything; default True
    :param ssl_context: a finished context instead of all of the above but ``server_hostname``
    :raises InvalidOption: for a value of the wrong kind, or options that exclude each other
    """

    ca_file: str | os.PathLike[str] | None = None
    certificate_file: str | os.PathLike[str] | None = None
    private_key_file: str | os.PathLike[str] | None = None
    private_key_password: str | None = field(default=None, repr=False)
    minimum_version: Literal["TLSv1.2", "TLSv1.3"] = "TLSv1.2"
    server_hostname: str | None = None
    verify: bool = True
    ssl_context: ssl.SSLContext | None = None

    def __post_init__(self) -> None:
        for name in ("ca_file", "certificate_file", "private_key_file"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str | os.PathLike) or not os.fspath(value)):
                raise InvalidOption(f"{name}={value!r} is not valid: use a path")
        host = self.server_hostname
        if host is not None and (not isinstance(host, str) or not host):
            raise InvalidOption(f"server_hostname={host!r} is not valid: use a host name or an IP address")
        if self.private_key_password is not None and not isinstance(self.private_key_password, str):
            raise InvalidOption("private_key_password is not valid: use a string")
        if self.minimum_version not in ("TLSv1.2", "TLSv1.3"):
            raise InvalidOption(
                f"minimum_version={self.minimum_version!r} is not valid: use 'TLSv1.2' or 'TLSv1.3'"
            )
        check_flag("verify", self.verify)
        if self.certificate_file is None and (
            self.private_key_file is not None or self.private_key_password is not None
        ):
            raise InvalidOption(
                "a private key without a certificate is of no use: set certificate_file as well"
            )
        if self.ssl_context is None:
            return
        if not isinstance(self.ssl_context, ssl.SSLContext):
            raise InvalidOption(f"ssl_context={self.ssl_context!r} is not valid: use an ssl.SSLContext")
        if (self.ca_file, self.certificate_file, self.minimum_version, self.verify) != (
            None,
            None,
            "TLSv1.2",
            True,
        ):
            raise InvalidOption(
                "ssl_context excludes all other TLS options but server_hostname: set them on it"
            )


def check_tls(option: str, value: bool | ssl.SSLContext | TLSOptions) -> None:
    """Refuse what says nothing about TLS.

    :raises InvalidOption: naming ``option``
    """
    if not isinstance(value, bool | ssl.SSLContext | TLSOptions):
        raise InvalidOption(
            f"{option}={value!r} is not valid: use True, False, TLSOptions(...) or an ssl.SSLContext"
        )
