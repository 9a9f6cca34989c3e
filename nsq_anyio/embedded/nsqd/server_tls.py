"""The embedded nsqd's side of TLS: its contexts, and the parameters of a connection for its statistics."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass
from typing import cast

from anyio.abc import ByteStream
from anyio.streams.tls import TLSAttribute

from ...errors import InvalidOption
from .nsqd_options import NsqdOptions

HANDSHAKE_TIMEOUT = 5.0
"""The seconds that a client has for the handshake, as in nsqd."""

# By nsqd's names. Python has deprecated versions before 1.2, and OpenSSL refuses them by default.
_MIN_VERSIONS = {
    "tls1.0": ssl.TLSVersion.TLSv1_2,
    "tls1.1": ssl.TLSVersion.TLSv1_2,
    "tls1.2": ssl.TLSVersion.TLSv1_2,
    "tls1.3": ssl.TLSVersion.TLSv1_3,
}

# nsqd knows only these names, and shows all others as numbers.
_CIPHERS = {
    "AES128-SHA": "TLS_RSA_WITH_AES_128_CBC_SHA",
    "AES256-SHA": "TLS_RSA_WITH_AES_256_CBC_SHA",
    "ECDHE-ECDSA-AES128-SHA": "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "ECDHE-ECDSA-AES256-SHA": "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "ECDHE-RSA-AES128-SHA": "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "ECDHE-RSA-AES256-SHA": "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "ECDHE-RSA-AES128-GCM-SHA256": "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
    "ECDHE-ECDSA-AES128-GCM-SHA256": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
}
_CIPHER_NUMBER = 0xFFFF


@dataclass(frozen=True, slots=True)
class TLSInfo:
    """The parameters of one TLS connection.

    :ivar version: the version, such as ``TLS1.3``
    :ivar cipher_suite: the cipher suite, by the name that nsqd shows
    :ivar common_name: the common name of the client's certificate; empty without one
    """

    version: str
    cipher_suite: str
    common_name: str

    @classmethod
    def of(cls, stream: ByteStream) -> TLSInfo:
        """Return the parameters of a stream made by `start_tls`."""
        tls: ssl.SSLObject = stream.extra(TLSAttribute.ssl_object)  # noqa: S610 - AnyIO's
        version = (tls.version() or "").replace("TLSv", "TLS")
        cipher = tls.cipher()
        name = cipher[0] if cipher else ""
        return cls(version, _cipher_suite(name, tls.context), _common_name(tls))


def _cipher_suite(name: str, context: ssl.SSLContext) -> str:
    if name in _CIPHERS:
        return _CIPHERS[name]
    numbers = {cipher["name"]: cipher["id"] & _CIPHER_NUMBER for cipher in context.get_ciphers()}
    return f"Unknown {numbers.get(name, 0)}"


def _common_name(tls: ssl.SSLObject) -> str:
    certificate = cast("dict[str, object]", tls.getpeercert() or {})
    subject = cast("tuple[tuple[tuple[str, str], ...], ...]", certificate.get("subject", ()))
    return next((value for names in subject for name, value in names if name == "commonName"), "")


def server_context(options: NsqdOptions) -> ssl.SSLContext | None:
    """Return the context for all clients; None without TLS.

    :raises InvalidOption: if a file cannot be read or used
    """
    if options.tls_cert is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _MIN_VERSIONS[options.tls_min_version]
    # A renegotiation would have to send while reading. Go's server refuses it, too.
    context.options |= ssl.OP_NO_RENEGOTIATION
    try:
        context.load_cert_chain(options.tls_cert, options.tls_key, _no_password)
    except (OSError, ValueError) as error:
        raise InvalidOption(
            f"tls_cert={options.tls_cert!r}, tls_key={options.tls_key!r} cannot be used ({error}): "
            "use PEM files of a certificate and of its key"
        ) from error
    if options.tls_client_auth_policy is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        _load_authorities(context, options.tls_root_ca_file)
    elif options.tls_root_ca_file is not None:
        _load_authorities(context, options.tls_root_ca_file)  # unused, but nsqd, too, refuses a bad file
    return context


def auth_context(options: NsqdOptions) -> ssl.SSLContext | None:
    """Return the context for https auth servers; None to trust the system's authorities.

    :raises InvalidOption: if a file cannot be read or used
    """
    if options.tls_root_ca_file is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = _MIN_VERSIONS[options.tls_min_version]
    _load_authorities(context, options.tls_root_ca_file)
    return context


def _load_authorities(context: ssl.SSLContext, path: str | os.PathLike[str] | None) -> None:
    if path is None:
        context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
        return
    try:
        context.load_verify_locations(path)
    except (OSError, ValueError) as error:
        raise InvalidOption(
            f"tls_root_ca_file={path!r} cannot be used ({error}): use a PEM file of certificates"
        ) from error


def _no_password() -> str:
    # Without this function, OpenSSL would ask on the terminal and wait.
    raise ValueError("the key is encrypted")
