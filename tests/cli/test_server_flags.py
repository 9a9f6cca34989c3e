"""The values of flags as the real nsqd and nsqlookupd take them."""

from __future__ import annotations

import click
import pytest

from nsq_anyio.address import ListenAddress
from nsq_anyio.cli.flags.kinds import boolean, duration
from nsq_anyio.cli.servers.flags import (
    listen_address,
    listen_address_or_path,
    tls_client_auth_policy,
    tls_min_version,
    tls_required,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0.0),
        ("60s", 60.0),
        ("1m30s", 90.0),
        ("1.5h", 5400.0),
        (".5s", 0.5),
        ("1.s", 1.0),
        ("100ms", 0.1),
        ("250us", 0.00025),
        ("250µs", 0.00025),
        ("3ns", 3e-9),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "1", "s", "1 s", "-1s", "1s ", "1.2.3s", "1d", ".s", "1s2", "inf"])
def test_bad_durations(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a duration"):
        duration(text)


def test_listen_addresses() -> None:
    assert listen_address("127.0.0.1:0") == ListenAddress("127.0.0.1", 0)
    assert listen_address(":4150") == ListenAddress("0.0.0.0", 4150)
    assert listen_address("[::1]:4150") == ListenAddress("::1", 4150)
    for bad in ("127.0.0.1", "127.0.0.1:", "h:65536", "h:-1", "h:x", "::1:4150", "/run/nsqd.sock"):
        with pytest.raises(click.BadParameter):
            listen_address(bad)


def test_flags_of_nsqd_alone() -> None:
    assert [boolean(text) for text in ("true", "1", "T", "false", "0", "FALSE")] == [True] * 3 + [False] * 3
    assert [tls_required(text) for text in ("true", "TCP-HTTPS", "False")] == [True, "tcp-https", False]
    assert [tls_min_version(text) for text in ("", "TLS1.3", "tls1.1")] == ["tls1.0", "tls1.3", "tls1.1"]
    assert [tls_client_auth_policy(text) for text in ("", "require")] == [None, "require"]
    assert listen_address_or_path("/run/nsqd.sock") == "/run/nsqd.sock"
    assert listen_address_or_path("./nsqd.sock") == "./nsqd.sock"
    assert listen_address_or_path("[::1]:5") == ListenAddress("::1", 5)
