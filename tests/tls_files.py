"""Certificates for tests of TLS, made afresh for each run and written where programs can read them."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

KEY_PASSWORD = "a password with spaces and \u00e4"


@dataclass(frozen=True, slots=True)
class KeyPair:
    """Paths of a certificate with its chain, and of its key, both PEM."""

    certificate_file: str
    private_key_file: str


@dataclass(frozen=True, slots=True)
class TLSFiles:
    """Paths of PEM files.

    :ivar ca_file: the authority that signed all that is not said to come from another
    :ivar other_ca_file: an authority that signed only `stranger`
    :ivar server: for localhost, 127.0.0.1 and ::1
    :ivar client: for a client
    :ivar encrypted_client: the same, with its key under `KEY_PASSWORD`
    :ivar stranger: of the other authority; for the same names as `server`
    :ivar expired: like `server`, but out of date since yesterday
    :ivar other_host: like `server`, but for elsewhere.example
    """

    ca_file: str
    other_ca_file: str
    server: KeyPair
    client: KeyPair
    encrypted_client: KeyPair
    stranger: KeyPair
    expired: KeyPair
    other_host: KeyPair

    @property
    def certificate_file(self) -> str:
        """The certificate of `server`."""
        return self.server.certificate_file

    @property
    def private_key_file(self) -> str:
        """The key of `server`."""
        return self.server.private_key_file


def make_tls_files(directory: Path) -> TLSFiles:
    """Make all of them, and write them to ``directory``."""
    ca, other_ca = trustme.CA(), trustme.CA()
    names = ("localhost", "127.0.0.1", "::1")
    now = datetime.now(UTC)

    def write(name: str, *pems: bytes) -> str:
        path = directory / f"{name}.pem"
        path.write_bytes(b"".join(pems))
        return str(path)

    def pair(name: str, leaf: trustme.LeafCert) -> KeyPair:
        return KeyPair(
            write(name, *[pem.bytes() for pem in leaf.cert_chain_pems]),
            write(f"{name}-key", leaf.private_key_pem.bytes()),
        )

    client_leaf = ca.issue_cert("client.example")
    client = pair("client", client_leaf)
    encrypted_key = load_pem_private_key(client_leaf.private_key_pem.bytes(), None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(KEY_PASSWORD.encode())
    )
    expired = ca.issue_cert(*names, not_before=now - timedelta(days=9), not_after=now - timedelta(days=1))
    return TLSFiles(
        ca_file=write("ca", ca.cert_pem.bytes()),
        other_ca_file=write("other-ca", other_ca.cert_pem.bytes()),
        server=pair("server", ca.issue_cert(*names)),
        client=client,
        encrypted_client=KeyPair(client.certificate_file, write("encrypted-client-key", encrypted_key)),
        stranger=pair("stranger", other_ca.issue_cert(*names)),
        expired=pair("expired", expired),
        other_host=pair("other-host", ca.issue_cert("elsewhere.example")),
    )


@pytest.fixture(scope="session")
def tls_files(tmp_path_factory: pytest.TempPathFactory) -> TLSFiles:
    """The files, made once for all tests."""
    return make_tls_files(tmp_path_factory.mktemp("tls"))
