"""The flags of connections, and where messages come from: what a command gets of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from nsq_anyio import TLSOptions
from nsq_anyio.cli.command import UtilityCommand
from nsq_anyio.cli.flags.connection import ConsumerFlags, ProducerFlags, connection_flags
from nsq_anyio.cli.flags.source import Source, source_flags

DEAD = "127.0.0.1:1"


@click.command(cls=UtilityCommand, context_settings={"auto_envvar_prefix": "NSQ_ANYIO"})
@source_flags
@connection_flags("consumer", "producer")
def probe(**values: Any) -> None:
    """Hand over what the flags say."""
    click.get_current_context().obj.update(values)


def _parsed(*arguments: str, env: dict[str, str] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    result = CliRunner().invoke(probe, [f"--nsqd-tcp-address={DEAD}", *arguments], obj=found, env=env)
    assert result.exit_code == 0, result.output
    return found


def _consumer(*arguments: str) -> ConsumerFlags:
    found: ConsumerFlags = _parsed(*arguments)["consumer"]
    return found


GO_NSQ = {
    "dial_timeout": "2s",
    "read_timeout": "1m",
    "write_timeout": "1s",
    "local_addr": "127.0.0.1:0",
    "lookupd_poll_interval": "30s",
    "lookupd_poll_jitter": "0.1",
    "lookupd_poll_timeout": "10s",
    "max_requeue_delay": "10m",
    "default_requeue_delay": "1m",
    "backoff_strategy": "full_jitter",
    "max_backoff_duration": "1m",
    "backoff_multiplier": "2s",
    "max_attempts": "7",
    "low_rdy_idle_timeout": "5s",
    "low_rdy_timeout": "20s",
    "rdy_redistribute_interval": "1s",
    "client_id": "me",
    "hostname": "here",
    "user_agent": "agent/1",
    "heartbeat_interval": "15s",
    "sample_rate": "10",
    "tls_v1": "true",
    "tls_root_ca_file": "ca.pem",
    "tls_cert": "cert.pem",
    "tls_key": "key.pem",
    "tls_insecure_skip_verify": "true",
    "tls_min_version": "tls1.2",
    "deflate": "false",
    "deflate_level": "3",
    "snappy": "true",
    "output_buffer_size": "1024",
    "output_buffer_timeout": "100ms",
    "max_in_flight": "9",
    "msg_timeout": "90s",
    "auth_secret": "secret",
    "skip_lookupd_authorization": "true",
}
"""Every option of go-nsq 1.1.0 that a string can set, with a value."""


@pytest.mark.parametrize("flag", ["consumer", "producer"])
def test_every_option_of_go_nsq_is_taken(flag: str) -> None:
    _parsed(*(f"--{flag}-opt={key},{value}" for key, value in GO_NSQ.items()))


def test_options_reach_the_consumer_and_its_connections() -> None:
    flags = _consumer(*(f"--consumer-opt={key},{value}" for key, value in GO_NSQ.items()))
    assert flags.max_in_flight == 9
    assert flags.options.max_attempts == 7
    assert flags.options.backoff_strategy == "full_jitter"
    assert flags.options.requeue_delay == 60.0
    assert flags.connection.msg_timeout == 90.0
    assert flags.connection.snappy
    assert flags.connection.tls == TLSOptions(
        ca_file="ca.pem",
        certificate_file="cert.pem",
        private_key_file="key.pem",
        verify=False,
        minimum_version="TLSv1.2",
    )


def test_what_has_no_effect_is_said() -> None:
    result = CliRunner().invoke(
        probe, [f"--nsqd-tcp-address={DEAD}", "--consumer-opt=read_timeout,1m"], obj={}
    )
    assert result.stderr == (
        "note: --consumer-opt read_timeout has no effect: a connection ends after two missed heartbeats\n"
    )


def test_a_key_alone_is_true() -> None:
    assert _consumer("--consumer-opt=snappy").connection.snappy


def test_source() -> None:
    lookupd = CliRunner()
    found: dict[str, Any] = {}
    arguments = ["-lookupd-http-address=127.0.0.1:4161", "-lookupd-http-address", "http://127.0.0.1:4161"]
    assert lookupd.invoke(probe, arguments, obj=found).exit_code == 0
    assert found["source"] == Source(None, ("127.0.0.1:4161", "http://127.0.0.1:4161"))
    assert _parsed()["source"] == Source((DEAD,), None)


def test_connection_flags_are_the_same_for_both_sides() -> None:
    found = _parsed("--tls-ca-file=ca.pem", "--deflate", "--deflate-level=3", "--auth-secret=s")
    consumer: ConsumerFlags = found["consumer"]
    producer: ProducerFlags = found["producer"]
    assert consumer.connection == producer.connection
    assert consumer.connection.tls == TLSOptions(ca_file="ca.pem")
    assert consumer.connection.deflate
    assert consumer.connection.deflate_level == 3
    assert consumer.connection.auth_secret == "s"
    assert consumer.options.lookupd_tls == TLSOptions(ca_file="ca.pem")


@pytest.mark.parametrize(
    "flag",
    [
        "--tls",
        "--tls-ca-file=ca.pem",
        "--tls-certificate-file=cert.pem",
        "--tls-no-verify",
        "--tls-server-hostname=nsqd",
        "--tls-min-version=tls1.2",
        "--tls-min-version=TLSv1.3",
    ],
)
def test_each_flag_of_tls_implies_it(flag: str) -> None:
    assert _consumer(flag).connection.tls
    assert not _consumer().connection.tls


def test_a_flag_wins_over_go_nsq_s_max_in_flight() -> None:
    assert _consumer("--consumer-opt=max_in_flight,9", "--max-in-flight=4").max_in_flight == 4
    assert _consumer().max_in_flight == 200


def test_the_secret_comes_from_a_file_that_is_read_each_time(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_bytes(b"one\n")
    secret = _consumer(f"--auth-secret-file={path}").connection.auth_secret
    assert callable(secret)
    assert secret() == b"one"
    path.write_bytes(b"two\n")
    assert secret() == b"two"


def test_the_secret_comes_from_the_environment() -> None:
    consumer: ConsumerFlags = _parsed(env={"NSQ_ANYIO_AUTH_SECRET": "s"})["consumer"]
    assert consumer.connection.auth_secret == "s"
