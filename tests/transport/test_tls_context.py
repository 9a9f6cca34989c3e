"""From TLS options to a context: every fault in a file names the option, the path and the remedy."""

import ssl
from pathlib import Path

import pytest
import trustme

from nsq_anyio.errors import InvalidOption
from nsq_anyio.options import TLSOptions
from nsq_anyio.transport.tls_context import client_context, tls_options

from ..tls_files import KEY_PASSWORD, TLSFiles

READABLE = "use the path of a readable PEM file"


def test_what_the_option_means() -> None:
    options = TLSOptions(verify=False)
    context = ssl.create_default_context()
    assert tls_options(False) is None
    assert tls_options(True) == TLSOptions()
    assert tls_options(options) is options
    assert tls_options(context) == TLSOptions(ssl_context=context)


def test_by_default_the_server_is_verified_with_the_systems_authorities() -> None:
    context = client_context(TLSOptions())
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.options & ssl.OP_NO_RENEGOTIATION
    assert context.cert_store_stats() == ssl.create_default_context().cert_store_stats()


def test_an_authority_of_ones_own_replaces_the_systems(tls_files: TLSFiles) -> None:
    context = client_context(TLSOptions(ca_file=Path(tls_files.ca_file)))
    assert context.cert_store_stats()["x509_ca"] == 1


def test_what_is_set_is_taken() -> None:
    context = client_context(TLSOptions(minimum_version="TLSv1.3", verify=False))
    assert context.verify_mode is ssl.CERT_NONE
    assert not context.check_hostname
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3


def test_a_finished_context_is_returned_as_it_is() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    options = context.options
    assert client_context(TLSOptions(ssl_context=context)) is context
    assert context.options == options


def test_a_certificate_and_its_key_may_share_a_file(tls_files: TLSFiles, tmp_path: Path) -> None:
    both = tmp_path / "both.pem"
    pair = tls_files.client
    both.write_bytes(Path(pair.private_key_file).read_bytes() + Path(pair.certificate_file).read_bytes())
    client_context(TLSOptions(certificate_file=both))


def test_a_password_of_a_key_that_needs_none_is_ignored(tls_files: TLSFiles) -> None:
    client_context(
        TLSOptions(
            certificate_file=tls_files.client.certificate_file,
            private_key_file=tls_files.client.private_key_file,
            private_key_password="not needed",
        )
    )


def refusal(**options: object) -> str:
    """What the refusal of these files says; it never tells the password."""
    with pytest.raises(InvalidOption) as failure:
        client_context(TLSOptions(**options))  # type: ignore[arg-type]  # by name
    text = str(failure.value)
    password = options.get("private_key_password")
    assert password is None or str(password) not in text
    return text


@pytest.mark.parametrize(
    ("name", "reason"),
    [("missing.pem", "No such file or directory"), ("", "Is a directory"), ("a\0b", "embedded null byte")],
)
@pytest.mark.parametrize("option", ["ca_file", "certificate_file", "private_key_file"])
def test_a_file_that_cannot_be_read(
    tls_files: TLSFiles, tmp_path: Path, option: str, name: str, reason: str
) -> None:
    path = tmp_path / name
    options: dict[str, object] = {"certificate_file": tls_files.client.certificate_file, option: path}
    assert refusal(**options) == f"{option}={str(path)!r} cannot be read ({reason}): {READABLE}"


@pytest.mark.parametrize("content", [b"", b"no PEM", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERT"])
@pytest.mark.parametrize("option", ["ca_file", "certificate_file"])
def test_a_file_without_a_certificate(tmp_path: Path, option: str, content: bytes) -> None:
    path = tmp_path / "file.pem"
    path.write_bytes(content)
    text = refusal(**{option: str(path)})
    assert text == f"{option}={str(path)!r} holds no valid certificate: use a file in PEM format"


def test_a_certificate_without_its_key(tls_files: TLSFiles) -> None:
    path = tls_files.client.certificate_file
    text = refusal(certificate_file=path)
    assert text == f"certificate_file={path!r} holds no private key: set private_key_file"


def test_a_file_without_a_key(tls_files: TLSFiles) -> None:
    path = tls_files.client.certificate_file
    text = refusal(certificate_file=path, private_key_file=path)
    assert text == f"private_key_file={path!r} holds no private key: use one in PEM format"


@pytest.mark.parametrize("pair", ["server", "rsa"])
def test_the_key_of_another_certificate(tls_files: TLSFiles, tmp_path: Path, pair: str) -> None:
    certificate = tls_files.client.certificate_file
    key = tls_files.server.private_key_file
    if pair == "rsa":
        key = str(tmp_path / "rsa.pem")
        leaf = trustme.CA().issue_cert("x", key_type=trustme.KeyType.RSA)
        leaf.private_key_pem.write_to_path(key)
    text = refusal(certificate_file=certificate, private_key_file=key)
    assert text == (
        f"private_key_file={key!r} holds the key of another certificate: "
        f"use the one that belongs to certificate_file={certificate!r}"
    )


def test_an_encrypted_key_without_a_password_is_refused_and_nobody_is_asked(tls_files: TLSFiles) -> None:
    pair = tls_files.encrypted_client
    text = refusal(certificate_file=pair.certificate_file, private_key_file=pair.private_key_file)
    assert text == (
        f"private_key_file={pair.private_key_file!r} holds an encrypted key: set private_key_password"
    )


@pytest.mark.parametrize("password", ["wrong", "", KEY_PASSWORD + "x", "x" * 2000, "\udc80"])
def test_a_wrong_password(tls_files: TLSFiles, password: str) -> None:
    pair = tls_files.encrypted_client
    with pytest.raises(InvalidOption) as failure:
        client_context(
            TLSOptions(
                certificate_file=pair.certificate_file,
                private_key_file=pair.private_key_file,
                private_key_password=password,
            )
        )
    assert str(failure.value) == (
        f"private_key_file={pair.private_key_file!r} holds an encrypted key "
        "that private_key_password does not open: check the password"
    )
    assert failure.value.__cause__ is None
    assert failure.value.__suppress_context__


def test_the_right_password_opens_the_key(tls_files: TLSFiles) -> None:
    pair = tls_files.encrypted_client
    client_context(
        TLSOptions(
            certificate_file=pair.certificate_file,
            private_key_file=pair.private_key_file,
            private_key_password=KEY_PASSWORD,
        )
    )
