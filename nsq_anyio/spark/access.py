"""How the driver and executors connect to NSQ: the options that reads and writes share."""

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, get_args

from ..errors import InvalidOption
from ..options import ConnectionOptions, TLSOptions
from ..options.declaration import declared, documented
from ..options.kinds import Choice, Flag, Seconds, Text, Value
from ..options.tls import TLSVersion
from ..transport.tls_context import client_context
from .option_texts import Parsed, absolute_path, nsqd_list, pass_through_options, text, text_options, url_list

Compression: TypeAlias = Literal["none", "snappy", "deflate"]

PassThrough: TypeAlias = tuple[tuple[str, object], ...]
"""Names and values of options that Spark passes unchanged to a connection or a producer."""

_TLS_NAMES = {
    "ca_file": "tlsCaFile",
    "certificate_file": "tlsCertificateFile",
    "private_key_file": "tlsPrivateKeyFile",
    "private_key_password": "tlsPrivateKeyPassword",
}


def is_pass_through(value: object) -> bool:
    """Return whether ``value`` is a `PassThrough`."""
    return isinstance(value, tuple)


@documented
@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """Where the servers are, and how to connect to them. It is pickled, so it holds no connections.

    All paths are paths on the executors. The driver needs the same files if it connects to https URLs.

    """

    nsqds: Annotated[tuple[str, ...], Parsed(parse=nsqd_list, spark="nsqd")] = ()
    """Addresses as ``host:port`` or the path of a unix socket; empty if nsqlookupds name them (default ()).
    """
    nsqlookupds: Annotated[tuple[str, ...], Parsed(parse=url_list, spark="nsqlookupd")] = field(
        default=(), repr=False
    )
    """URLs; never shown, as they may hold a password (default ())."""
    connect_timeout: Annotated[float, Seconds(low=0.001)] = 10.0
    """The time to connect to one nsqd (seconds: 0.001 or more; default 10)."""
    http_timeout: Annotated[float, Seconds(low=0.001)] = 10.0
    """The time for one HTTP response of nsqd or nsqlookupd (seconds: 0.001 or more; default 10)."""
    client_id: Annotated[str | None, Text()] = None
    """The client id that nsqadmin shows; None for the host name (default None)."""
    tls: Annotated[bool, Flag()] = False
    """Whether connections to nsqd are encrypted; the files below are used for https URLs as well (default
    False).
    """
    tls_ca_file: Annotated[str | None, Parsed(parse=absolute_path)] = None
    """The authorities to trust, PEM; None for the system's (default None)."""
    tls_certificate_file: Annotated[str | None, Parsed(parse=absolute_path)] = None
    """The client's certificate with its chain, PEM (default None)."""
    tls_private_key_file: Annotated[str | None, Parsed(parse=absolute_path)] = None
    """Its key, PEM (default None)."""
    tls_private_key_password: Annotated[str | None, Parsed(parse=text, is_secret=True)] = field(
        default=None, repr=False
    )
    """The password of an encrypted key (default None)."""
    tls_minimum_version: Annotated[TLSVersion, declared(TLSOptions)["minimum_version"]] = "TLSv1.2"
    tls_server_hostname: Annotated[str | None, Text()] = None
    """The name that nsqd's certificate must have; None for the address (default None)."""
    tls_verify: Annotated[bool, declared(TLSOptions)["verify"]] = True
    compression: Annotated[Compression, Choice(choices=get_args(Compression))] = "none"
    """What to ask nsqd for; if it declines, nothing is compressed ('none', 'snappy' or 'deflate'; default
    'none').
    """
    deflate_level: Annotated[int, declared(ConnectionOptions)["deflate_level"]] = 6
    auth_secret: Annotated[str | None, Text(is_secret=True)] = field(default=None, repr=False)
    """The secret for AUTH; never shown (default None)."""
    auth_secret_file: Annotated[str | None, Parsed(parse=absolute_path)] = None
    """A file with that secret, which each task reads again (default None)."""
    lookupd_authorization: Annotated[bool, Flag()] = False
    """Whether to send the secret to nsqlookupds, too, as ``Authorization: Bearer`` (default False)."""
    connection: Annotated[PassThrough, Value(valid=is_pass_through, use="pairs of names and values")] = ()
    """Other options of each connection (default ())."""

    @property
    def https_urls(self) -> tuple[str, ...]:
        """The URLs of the servers that are reached over https."""
        return tuple(url for url in self.nsqlookupds if url.startswith("https:"))

    def check(self) -> None:
        """Refuse options that exclude each other, or that need another one.

        :raises InvalidOption: naming them
        """
        if bool(self.nsqds) == bool(self.nsqlookupds):
            given = "both nsqd and nsqlookupd are" if self.nsqds else "neither nsqd nor nsqlookupd is"
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
        """Return the secret for AUTH; None if there is none.

        :raises InvalidOption: if its file cannot be read, or is empty
        """
        if self.auth_secret_file is None:
            return self.auth_secret
        path = self.auth_secret_file
        try:
            secret = Path(path).read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as error:
            # A decoding error could show a part of the secret.
            reason = (isinstance(error, OSError) and error.strerror) or "it is not UTF-8"
            raise InvalidOption(
                f"authSecretFile={path!r} cannot be read ({reason}): every executor needs it"
            ) from None
        if not secret:
            raise InvalidOption(f"authSecretFile={path!r} is empty: put the secret there")
        return secret

    def ssl_context(self) -> ssl.SSLContext:
        """Return a context made from the files for TLS.

        :raises InvalidOption: if a file cannot be read or used
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
        """Return the options of a connection to nsqd. It reads the files, so call it in the task.

        :raises InvalidOption: if a file cannot be read or used
        """
        named: dict[str, Any] = {} if self.client_id is None else {"client_id": self.client_id}
        return ConnectionOptions(
            **named,
            **dict[str, Any](self.connection),
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


ACCESS_OPTIONS = text_options(Access)
CONNECTION_OPTIONS = pass_through_options(ConnectionOptions, "connection", declared(Access))
