"""Members that stand by themselves."""

import gzip
import random
import sys
from pathlib import Path

import pytest

from nsq_anyio.cli.to_file.encodings import Encoding, Gzip, Zstd, whole_length
from nsq_anyio.errors import InvalidOption

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

CASES = [(Gzip(), gzip.decompress), (Gzip(1), gzip.decompress), (Zstd(), zstd.decompress)]


@pytest.mark.parametrize(("encoding", "decode"), CASES)
def test_members_follow_one_another(encoding: Encoding, decode: object) -> None:
    assert callable(decode)
    parts = [b"one\n", b"", b"two\n" * 10_000]
    assert [decode(encoding.encode(part)) for part in parts] == parts
    assert decode(b"".join(map(encoding.encode, parts))) == b"".join(parts)


def test_members_are_checked() -> None:
    member = bytearray(Zstd().encode(b"some text, not compressible"))
    member[-5] ^= 1
    with pytest.raises(zstd.ZstdError):
        zstd.decompress(bytes(member))


@pytest.mark.parametrize("encoding", [Gzip(), Zstd()])
def test_a_member_that_is_not_whole_is_found(encoding: Encoding, tmp_path: Path) -> None:
    whole = [encoding.encode(b"one\n"), encoding.encode(random.Random(1).randbytes(100_000))]
    last = encoding.encode(b"last\n")
    path = tmp_path / f"file{encoding.suffix}"
    for count in range(len(whole) + 1):
        before = b"".join(whole[:count])
        for length in range(len(last)):
            path.write_bytes(before + last[:length])
            assert whole_length(path) == len(before)
        path.write_bytes(before + last)
        assert whole_length(path) == len(before + last)


@pytest.mark.parametrize("encoding", [Gzip(), Zstd()])
def test_what_follows_a_damaged_member_is_kept(encoding: Encoding, tmp_path: Path) -> None:
    damaged = bytearray(encoding.encode(b"some text, not compressible"))
    damaged[-5] ^= 1
    path = tmp_path / f"file{encoding.suffix}"
    path.write_bytes(encoding.encode(b"one\n") + damaged + encoding.encode(b"two\n"))
    assert whole_length(path) == path.stat().st_size


def test_what_cannot_be_decompressed_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file.zst"
    path.write_bytes(Zstd().encode(b"one\n")[:-1])
    for name in ("compression.zstd", "backports.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    assert whole_length(path) == path.stat().st_size


@pytest.mark.parametrize(
    ("whole", "rest"),
    [
        (b"", b""),
        (b"", b"half"),
        (b"one\n", b""),
        (b"one\n", b"half"),
        (b"\n", b"half" * 100_000),
        # What the messages are does not matter.
        (Gzip().encode(b"a message") + b"\n", b""),
        (b"\x1f\x8b\x08\x00, as a member begins\n", b""),
    ],
    ids=["empty", "half", "one", "one and a half", "long", "gzip", "like gzip"],
)
def test_a_line_that_is_not_whole_is_found(whole: bytes, rest: bytes, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(whole + rest)
    assert whole_length(path) == len(whole)


def test_levels_matter() -> None:
    words = [b"topic", b"channel", b"message", b"nsqd", b"nsqlookupd", b"in", b"flight", b"attempts", b"{}"]
    rng = random.Random(1)
    data = b" ".join(rng.choice(words) for _ in range(20_000))
    assert len(Gzip(9).encode(data)) < len(Gzip(1).encode(data)) < len(data)
    assert len(Zstd(19).encode(data)) < len(Zstd(1).encode(data)) < len(data)


@pytest.mark.parametrize(("kind", "level"), [(Gzip, 0), (Gzip, 10), (Zstd, 0), (Zstd, 23)])
def test_levels_out_of_range(kind: type[Gzip] | type[Zstd], level: int) -> None:
    with pytest.raises(InvalidOption, match=f"_level={level} is not valid"):
        kind(level)


def test_without_zstd(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("compression.zstd", "backports.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InvalidOption, match=r"pip install 'nsq-anyio\[zstd\]'"):
        Zstd()
