"""How executors and the driver reach NSQ: the options that reading and writing share."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ..errors import InvalidOption
from ..options import ConnectionOptions, TLSOptions
from ..transport.tls_context import client_context
from .option_texts import Option, absolute_path, choice, flag, integer, nsqd_list, seconds, text, url_list

__all__ = ["ACCESS_OPTIONS", "Access"]

Compression = Literal["none", "snappy", "deflate"]

_TLS_NAMES = {
    "ca_file": "tlsCaFile",
    "certificate_file": "tlsCertificateFile",
    "private_key_file": "tlsPrivateKeyFile",
    "private_key_password": "tlsPrivateKeyPassword",
}

ACCESS_OPTIONS = (
    Option("nsqd", "nsqds", nsqd_list),
    Option("nsqlookupd", "nsqlookupds", url_list),
    Option("connectTimeout", "connect_timeout", seconds(0.001)),
    Option("httpTimeout", "http_timeout", seconds(0.001)),
    Option("clientId", "client_id", text),
    Option("tls", "tls", flag),
    Option("tlsCaFile", "tls_ca_file", absolute_path),
    Option("tlsCertificateFile", "tls_certificate_file", absolute_path),
    Option("tlsPrivateKeyFile", "tls_private_key_file", absolute_path),
    Option("tlsPrivateKeyPassword", "tls_private_key_password", text, is_secret=True),
    Option("tlsMinimumVersion", "tls_minimum_version", choice("TLSv1.2", "TLSv1.3")),
    Option("tlsServerHostname", "tls_server_hostname", text),
    Option("tlsVerify", "tls_verify", flag),
    Option("compression", "compression", choice("none", "snappy", "deflate")),
    Option("deflateLevel", "deflate_level", integer(1, 9)),
    Option("authSecret", "auth_secret", text, is_secret=True),
    Option("authSecretFile", "auth_secret_file", absolute_path),
    Option("lookupdAuthorization", "lookupd_authorization", flag),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Where the servers are, and what they are told. It is pickled, so it holds no connections.

    All paths are paths on the executors, and on the driver as far as it asks over https.

    :ivar nsqds: addresses as ``host:port`` or the path of a unix socket; empty when nsqlookupds know them
    :ivar nsqlookupds: URLs; never shown, as they may hold a password
    :ivar connect_timeout: seconds to connect to one nsqd; default 10
    :ivar http_timeout: seconds for one answer of nsqd's or nsqlookupd's HTTP side; default 10
    :ivar client_id: shown by nsqadmin; None takes the host name
    :ivar tls: whether connections to nsqd are encrypted; the files hold for https URLs as well
    :ivar compression: ``none``, ``snappy`` or ``deflate``; an nsqd that declines sends uncompressed
    :ivar auth_secret: what to AUTH with; never shown
    :ivar auth_secret_file: a file with that secret, which is read anew for each task
    :ivar lookupd_authorization: whether nsqlookupds get the secret too, as ``Authorization: Bearer``
    """

    nsqds: tuple[str, ...] = ()
    nsqlookupds: tuple[str, ...] = field(default=(), repr=False)
    connect_timeout: float = 10.0
    http_timeout: float = 10.0
    client_id: str | None = None
    tls: bool = False
    tls_ca_file: str | None = None
    tls_certificate_file: str | None = None
    tls_private_key_file: str | None = None
    tls_private_key_password: str | None = field(default=None, repr=False)
    tls_minimum_version: Literal["TLSv1.2", "TLSv1.3"] = "TLSv1.2"
    tls_server_hostname: str | None = None
    tls_verify: bool = True
    compression: Compression = "none"
    deflate_level: int = 6
    auth_secret: str | None = field(default=None, repr=False)
    auth_secret_file: str | None = None
    lookupd_authorization: bool = False

    @property
    def https_urls(self) -> tuple[str, ...]:
        """The servers that are asked over https."""
        return tuple(url for url in self.nsqlookupds if url.startswith("https:"))

    def check(self) -> None:
        """Refuse options that exclude each other, or miss each other.

        :raises InvalidOption: naming them
        """
        if bool(self.nsqds) == bool(self.nsqlookupds):
            given = "both of nsqd and nsqlookupd are" if self.nsqds else "none of nsqd and nsqlookupd is"
            raise InvalidOption(
                f"{given} set: set nsqd to the nsqds, such as 127.0.0.1:4150, or nsqlookupd to the URLs of "
                "the nsqlookupds that know them, such as http://127.0.0.1:4161"
            )
        if self.auth_secret is not None and self.auth_secret_file is not None:
            raise InvalidOption("authSecret and authSecretFile exclude each other: set one")
        if self.lookupd_authorization and self.auth_secret is None and self.auth_secret_file is None:
            raise InvalidOption("lookupdAuthorization=true without a secret: set authSecretFile as well")
        self._check_tls()

    def _check_tls(self) -> None:
        files = {
            "tlsCaFile": self.tls_ca_file,
            "tlsCertificateFile": self.tls_certificate_file,
            "tlsPrivateKeyFile": self.tls_private_key_file,
            "tlsPrivateKeyPassword": self.tls_private_key_password,
        }
        given = [name for name, value in files.items() if value is not None]
        if given and not self.tls and not self.https_urls:
            raise InvalidOption(f"{given[0]} without TLS has no effect: set tls=true as well")
        if self.tls_certificate_file is None and {"tlsPrivateKeyFile", "tlsPrivateKeyPassword"} & set(given):
            raise InvalidOption("a private key without a certificate: set tlsCertificateFile as well")

    def secret(self) -> str | None:
        """Return what to AUTH with, None for nothing.

        :raises InvalidOption: if its file cannot be read, or is empty
        """
        if self.auth_secret_file is None:
            return self.auth_secret
        path = self.auth_secret_file
        try:
            secret = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            # What is wrong with the text could show some of it.
            reason = (isinstance(error, OSError) and error.strerror) or "it is not UTF-8"
            raise InvalidOption(
                f"authSecretFile={path!r} cannot be read ({reason}): every executor needs it"
            ) from None
        if not secret:
            raise InvalidOption(f"authSecretFile={path!r} is empty: put the secret there")
        return secret

    def ssl_context(self) -> ssl.SSLContext:
        """Read the files of TLS.

        :raises InvalidOption: if one cannot be read or used
        """
        options = TLSOptions(
            ca_file=self.tls_ca_file,
            certificate_file=self.tls_certificate_file,
            private_key_file=self.tls_private_key_file,
            private_key_password=self.tls_private_key_password,
            minimum_version=self.tls_minimum_version,
            verify=self.tls_verify,
        )
        try:
            return client_context(options)
        except InvalidOption as error:
            message = str(error)
            for own, name in _TLS_NAMES.items():
                message = message.replace(own, name)
            raise InvalidOption(message) from None

    def connection_options(self, *, msg_timeout: float | None = None) -> ConnectionOptions:
        """Return the options of a connection to nsqd; for tasks, as the files are read.

        :raises InvalidOption: if a file cannot be read or used
        """
        named: dict[str, Any] = {} if self.client_id is None else {"client_id": self.client_id}
        return ConnectionOptions(
            **named,
            dial_timeout=self.connect_timeout,
            msg_timeout=msg_timeout,
            tls=TLSOptions(ssl_context=self.ssl_context(), server_hostname=self.tls_server_hostname)
            if self.tls
            else False,
            snappy=self.compression == "snappy",
            deflate=self.compression == "deflate",
            deflate_level=self.deflate_level,
            auth_secret=self.secret(),
        )
