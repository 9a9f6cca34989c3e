"""KeyUpdate (RFC 8446, 4.6.3): the peer changes its keys, and asks for the same.

No library here can send one, so the server's records are made by hand from the secrets that the handshake
agreed on.
"""

import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import anyio
import pytest
from anyio.abc import ByteStream
from anyio.streams.tls import TLSAttribute
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256, SHA384, HashAlgorithm
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from nsq_anyio.options import TLSOptions
from nsq_anyio.transport.tls import TLSStream
from nsq_anyio.transport.tls_context import client_context

from ..tls_files import TLSFiles
from .tls_streams import server_context, shake_hands, transports

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(20)]

ALERT, HANDSHAKE, APPLICATION_DATA = 21, 22, 23
CLOSE_NOTIFY = b"\1\0"
KEY_UPDATE_REQUESTED = b"\x18\0\0\1\1"
KEY_UPDATE_NOT_REQUESTED = b"\x18\0\0\1\0"

CIPHERS: dict[str, tuple[HashAlgorithm, int]] = {
    "TLS_AES_256_GCM_SHA384": (SHA384(), 32),
    "TLS_AES_128_GCM_SHA256": (SHA256(), 16),
}


class Keys:
    """What protects the records of one direction (RFC 8446, 5.2, 5.3 and 7.3)."""

    def __init__(self, cipher: str, secret: bytes) -> None:
        self._hash, key_length = CIPHERS[cipher]
        self._cipher = cipher
        self._secret = secret
        self._aead = AESGCM(self._expand(b"key", key_length))
        self._iv = int.from_bytes(self._expand(b"iv", 12), "big")
        self._sequence = 0

    def updated(self) -> "Keys":
        return Keys(self._cipher, self._expand(b"traffic upd", self._hash.digest_size))

    def seal(self, kind: int, content: bytes) -> bytes:
        """One record."""
        header = b"\x17\3\3" + (len(content) + 1 + 16).to_bytes(2, "big")
        return header + self._aead.encrypt(self._nonce(), content + bytes([kind]), header)

    def open(self, record: bytes) -> tuple[int, bytes]:
        """The kind and content of one record."""
        inner = self._aead.decrypt(self._nonce(), record[5:], record[:5])
        return inner[-1], inner[:-1]

    def _nonce(self) -> bytes:
        nonce = (self._iv ^ self._sequence).to_bytes(12, "big")
        self._sequence += 1
        return nonce

    def _expand(self, label: bytes, length: int) -> bytes:
        label = b"tls13 " + label
        info = length.to_bytes(2, "big") + bytes([len(label)]) + label + b"\0"
        return HKDFExpand(self._hash, length, info).derive(self._secret)


def split(data: bytes) -> list[bytes]:
    """The records in it."""
    records: list[bytes] = []
    while data:
        end = 5 + int.from_bytes(data[3:5], "big")
        records.append(data[:end])
        data = data[end:]
    return records


class Ends(NamedTuple):
    """The client under test with its transport, and what a server made by hand needs.

    :ivar client_keys: what protects the records that the client sends
    :ivar server_keys: what protects those that it receives
    """

    client: TLSStream
    sent: list[bytes]
    server: ByteStream
    client_keys: Keys
    server_keys: Keys


@asynccontextmanager
async def opened(files: TLSFiles, directory: Path) -> AsyncGenerator[Ends]:
    """A fresh TLS 1.3 connection."""
    log = directory / "secrets"
    accepting = server_context(files.server, ssl.TLSVersion.TLSv1_3)
    accepting.keylog_filename = str(log)
    accepting.num_tickets = 0  # so that no record has been protected with the keys for data
    context = client_context(TLSOptions(ca_file=files.ca_file))
    async with transports() as (left, right):
        client = (await shake_hands(left, right, context, accepting)).client
        assert isinstance(client, TLSStream)
        lines = (await anyio.Path(log).read_text()).splitlines()
        secrets = {line.split()[0]: bytes.fromhex(line.split()[2]) for line in lines if line[0] != "#"}
        cipher = client.extra(TLSAttribute.cipher)[0]
        left.sent.clear()
        yield Ends(
            client,
            left.sent,
            right.stream,
            Keys(cipher, secrets["CLIENT_TRAFFIC_SECRET_0"]),
            Keys(cipher, secrets["SERVER_TRAFFIC_SECRET_0"]),
        )


async def test_a_key_update_is_answered_with_the_next_send(tls_files: TLSFiles, tmp_path: Path) -> None:
    async with opened(tls_files, tmp_path) as (client, sent, server, client_keys, server_keys):
        update = server_keys.seal(HANDSHAKE, KEY_UPDATE_REQUESTED)
        await server.send(update + server_keys.updated().seal(APPLICATION_DATA, b"under new keys"))
        assert await client.receive() == b"under new keys"
        assert not sent

        await client.send(b"mine as well")
        answer, data = split(b"".join(sent))
        assert client_keys.open(answer) == (HANDSHAKE, KEY_UPDATE_NOT_REQUESTED)
        assert client_keys.updated().open(data) == (APPLICATION_DATA, b"mine as well")


async def test_a_half_close_needs_no_answer_to_a_key_update(tls_files: TLSFiles, tmp_path: Path) -> None:
    """The answer has to precede data, and none follows."""
    async with opened(tls_files, tmp_path) as (client, sent, server, client_keys, server_keys):
        update = server_keys.seal(HANDSHAKE, KEY_UPDATE_REQUESTED)
        await server.send(update + server_keys.updated().seal(APPLICATION_DATA, b"x"))
        assert await client.receive() == b"x"
        await client.send_eof()
        (end,) = sent
        assert client_keys.open(end) == (ALERT, CLOSE_NOTIFY)


@pytest.mark.parametrize("operation", ["send", "send_eof"])
async def test_amid_a_message_in_fragments_nothing_can_be_sent(
    tls_files: TLSFiles, tmp_path: Path, operation: str
) -> None:
    """OpenSSL does not write before it has read the rest; no known server fragments what is so short."""
    async with opened(tls_files, tmp_path) as (client, sent, server, _, server_keys):
        begin = server_keys.seal(APPLICATION_DATA, b"x") + server_keys.seal(
            HANDSHAKE, KEY_UPDATE_REQUESTED[:4]
        )
        await server.send(begin)
        assert await client.receive() == b"x"
        with pytest.raises(anyio.BrokenResourceError) as failure:
            await (client.send(b"mine") if operation == "send" else client.send_eof())
        assert isinstance(failure.value.__cause__, ssl.SSLError)
        assert not sent
        rest = server_keys.seal(HANDSHAKE, KEY_UPDATE_REQUESTED[4:])
        await server.send(rest + server_keys.updated().seal(APPLICATION_DATA, b"more"))
        assert await client.receive() == b"more"
