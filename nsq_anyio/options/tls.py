"""The options of TLS, for nsqd and nsqlookupd."""

import os
import ssl
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeAlias, get_args

from ..errors import InvalidOption
from .checks import is_path_or_none
from .declaration import check, documented
from .kinds import Choice, Flag, Option, Text, Value

TLSVersion: TypeAlias = Literal["TLSv1.2", "TLSv1.3"]
"""A version of TLS."""


class MinimumVersion(Choice):
    """The oldest version of TLS."""

    def parse(self, text: str, *, go: bool = False) -> str:
        """Return the version. With ``go``, go-nsq's names are accepted too, and older versions mean 1.2."""
        if not go:
            return super().parse(text)
        version = text.lower().removeprefix("tlsv").removeprefix("tls")
        if version in {"1.3", "1.2"}:
            return f"TLSv{version}"
        if version in {"1.1", "1.0", "ssl3.0"}:
            return "TLSv1.2"
        raise InvalidOption(f"{text!r} is not a version: use tls1.2 or tls1.3")


def _is_host(value: object) -> bool:
    return value is None or (isinstance(value, str) and bool(value))


def _is_password(value: object) -> bool:
    return value is None or isinstance(value, str)


def _is_context(value: object) -> bool:
    return value is None or isinstance(value, ssl.SSLContext)


@documented
@dataclass(frozen=True, slots=True, kw_only=True)
class TLSOptions:
    """The options of TLS: the authorities to trust, and this client's certificate.

    The files are read once, when `consume` or `produce` is called.

    :raises InvalidOption: for an invalid value, or options that exclude each other
    """

    ca_file: Annotated[
        str | os.PathLike[str] | None, Text(valid=is_path_or_none, use="a path", go="tls_root_ca_file")
    ] = None
    """A file with the certificates of the authorities to trust, PEM; None trusts the system's (default None).
    """
    certificate_file: Annotated[
        str | os.PathLike[str] | None, Text(valid=is_path_or_none, use="a path", go="tls_cert")
    ] = None
    """A file with this client's certificate and its chain, PEM; None for no certificate (default None)."""
    private_key_file: Annotated[
        str | os.PathLike[str] | None, Text(valid=is_path_or_none, use="a path", go="tls_key")
    ] = None
    """A file with the certificate's key, PEM; None if ``certificate_file`` also holds the key (default None).
    """
    private_key_password: Annotated[str | None, Text(valid=_is_password, is_secret=True)] = field(
        default=None, repr=False
    )
    """The password of an encrypted key (default None)."""
    minimum_version: Annotated[
        TLSVersion, MinimumVersion(choices=get_args(TLSVersion), go="tls_min_version")
    ] = "TLSv1.2"
    """The oldest version of TLS to speak ('TLSv1.2' or 'TLSv1.3'; default 'TLSv1.2')."""
    server_hostname: Annotated[str | None, Text(valid=_is_host, use="a host name or an IP address")] = None
    """The name that the server's certificate must carry; None for the host of the address. Required for a
    unix socket, which has no host (default None).
    """
    verify: Annotated[bool, Flag(go_opposite="tls_insecure_skip_verify")] = True
    """Whether the server's certificate is checked; otherwise anybody in between can read and change
    everything (default True).
    """
    ssl_context: Annotated[
        ssl.SSLContext | None, Value(valid=_is_context, use="an ssl.SSLContext", spark="")
    ] = None
    """A finished context, which replaces all other TLS options except ``server_hostname`` (default None)."""

    def __post_init__(self) -> None:
        check(self)
        if self.certificate_file is None and (
            self.private_key_file is not None or self.private_key_password is not None
        ):
            raise InvalidOption(
                "a private key without a certificate is of no use: set TLSOptions(certificate_file=...) "
                "as well"
            )
        if self.ssl_context is None:
            return
        if (self.ca_file, self.certificate_file, self.minimum_version, self.verify) != (
            None,
            None,
            "TLSv1.2",
            True,
        ):
            raise InvalidOption(
                "ssl_context excludes all other TLS options except server_hostname: set them on the context"
            )


class TLS(Option):
    """Whether, and how, a connection is encrypted."""

    @property
    def allowed(self) -> str:
        return "True, False, TLSOptions(...) or an ssl.SSLContext"

    def accepts(self, value: object) -> bool:
        return isinstance(value, bool | ssl.SSLContext | TLSOptions)
