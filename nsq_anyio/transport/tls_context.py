"""The TLS context of a connection, made from its options."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

from ..errors import InvalidOption
from ..options import TLSOptions

_Path = str | os.PathLike[str]

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}

# OpenSSL's reasons when a key belongs to another certificate: with the same type of key, and with another.
_MISMATCH = {"KEY_VALUES_MISMATCH", "NO_CERTIFICATE_ASSIGNED"}


def tls_options(value: bool | ssl.SSLContext | TLSOptions) -> TLSOptions | None:
    """Return the ``tls`` option of a connection as `TLSOptions`; None for no TLS."""
    if isinstance(value, TLSOptions):
        return value
    if isinstance(value, ssl.SSLContext):
        return TLSOptions(ssl_context=value)
    return TLSOptions() if value else None


def client_context(options: TLSOptions) -> ssl.SSLContext:
    """Make a context from the files that ``options`` names, or return its finished ``ssl_context``.

    :raises InvalidOption: if a file cannot be read or used; the text names the option, the path and the
        remedy
    """
    if options.ssl_context is not None:
        return options.ssl_context
    if options.ca_file is not None:
        _check_certificates("ca_file", options.ca_file)
    context = ssl.create_default_context(cafile=options.ca_file)
    context.minimum_version = _VERSIONS[options.minimum_version]
    # A renegotiation (TLS 1.2) would need sends while reading. When refused, the connection continues
    # unchanged.
    context.options |= ssl.OP_NO_RENEGOTIATION
    if not options.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if options.certificate_file is not None:
        _load_certificate(context, options, options.certificate_file)
    return context


def _load_certificate(context: ssl.SSLContext, options: TLSOptions, certificate_file: _Path) -> None:
    _check_certificates("certificate_file", certificate_file)
    if options.private_key_file is None:
        key = f"certificate_file={os.fspath(certificate_file)!r}"
        remedy = "set private_key_file"
    else:
        _check_readable("private_key_file", options.private_key_file)
        key = f"private_key_file={os.fspath(options.private_key_file)!r}"
        remedy = "use one in PEM format"
    is_encrypted = False

    def password() -> str:
        # Without a function, OpenSSL would ask for the password on the terminal, and wait.
        nonlocal is_encrypted
        is_encrypted = True
        return options.private_key_password or ""

    try:
        context.load_cert_chain(certificate_file, options.private_key_file, password)
    except (ssl.SSLError, ValueError) as error:  # ValueError: OpenSSL does not accept the password
        if isinstance(error, ssl.SSLError) and error.reason in _MISMATCH:
            raise InvalidOption(
                f"{key} holds the key of another certificate: "
                f"use the one that belongs to certificate_file={os.fspath(certificate_file)!r}"
            ) from error
        if not is_encrypted:
            raise InvalidOption(f"{key} holds no private key: {remedy}") from error
        # The cause could quote the password.
        if options.private_key_password is None:
            raise InvalidOption(f"{key} holds an encrypted key: set private_key_password") from None
        raise InvalidOption(
            f"{key} holds an encrypted key that private_key_password does not open: check the password"
        ) from None


def _check_certificates(option: str, path: _Path) -> None:
    _check_readable(option, path)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except ssl.SSLError as error:
        raise InvalidOption(
            f"{option}={os.fspath(path)!r} holds no valid certificate: use a file in PEM format"
        ) from error


def _check_readable(option: str, path: _Path) -> None:
    """Raise an error that names an unreadable file; OpenSSL's errors do not name it."""
    try:
        with Path(path).open("rb"):
            pass
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise InvalidOption(
            f"{option}={os.fspath(path)!r} cannot be read ({reason}): use the path of a readable PEM file"
        ) from error
