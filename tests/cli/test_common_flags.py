"""What all commands have in common: help with an example, Go's flags, one clear line for a mistake."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from nsq_anyio import TLSOptions
from nsq_anyio.cli.command import UtilityCommand
from nsq_anyio.cli.flags.connection import ConsumerFlags, ProducerFlags, connection_flags
from nsq_anyio.cli.flags.source import Source, source_flags
from nsq_anyio.cli.lazy_group import subcommands
from nsq_anyio.cli.main import cli

from .processes import run

DEAD = "127.0.0.1:1"
Path_ = tuple[str, ...]


def _commands(command: click.Command, path: Path_ = ()) -> Iterator[tuple[Path_, click.Command]]:
    if isinstance(command, click.Group):
        for name, subcommand in subcommands(command).items():
            yield from _commands(subcommand, (*path, name))
    else:
        yield path, command


COMMANDS = [pytest.param(path, command, id="-".join(path)) for path, command in _commands(cli)]
UTILITIES = [
    pytest.param(path, command, id="-".join(path))
    for path, command in _commands(cli)
    if isinstance(command, UtilityCommand)
]

GO_FLAGS = {
    "tail": "channel consumer-opt lookupd-http-address max-in-flight n nsqd-tcp-address print-topic topic "
    "version",
    "to-file": "channel consumer-opt datetime-format filename-format gzip gzip-level host-identifier "
    "http-client-connect-timeout http-client-request-timeout log-level log-prefix lookupd-http-address "
    "max-in-flight nsqd-tcp-address output-dir rotate-interval rotate-size skip-empty-files sync-interval "
    "topic topic-pattern topic-refresh version work-dir",
    "to-http": "channel consumer-opt content-type get header http-client-connect-timeout "
    "http-client-request-timeout lookupd-http-address max-in-flight mode n nsqd-tcp-address post sample "
    "status-every topic version",
    "to-nsq": "channel consumer-opt destination-nsqd-tcp-address destination-topic lookupd-http-address "
    "max-in-flight mode nsqd-tcp-address producer-opt require-json-field require-json-value status-every "
    "topic version whitelist-json-field",
    "pub": "delimiter nsqd-tcp-address producer-opt rate topic",
    "stat": "channel count http-client-connect-timeout http-client-request-timeout interval "
    "lookupd-http-address nsqd-http-address topic version",
}


def _flags(command: click.Command) -> set[str]:
    found = {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)}
    return found | {"-h", "--help"}


@pytest.mark.parametrize(("path", "command"), COMMANDS)
def test_help_has_an_example_of_the_command_as_it_is(path: Path_, command: click.Command) -> None:
    result = CliRunner().invoke(cli, [*path, "--help"], prog_name="nsq-anyio")
    assert result.exit_code == 0
    text, _, example = result.output.partition("Example:\n")
    assert text.startswith(f"Usage: nsq-anyio {' '.join(path)} ")
    assert f"nsq-anyio {' '.join(path)}" in example
    assert command.help
    used = set(re.findall(r"(?<=\s)--?[a-z][a-z-]*", example))
    assert used <= _flags(command)


@pytest.mark.parametrize(("path", "command"), UTILITIES)
def test_every_utility_takes_the_common_flags(path: Path_, command: click.Command) -> None:
    del path
    common = {"--config", "--backend", "--log-level", "--log-format", "--version"}
    assert common <= _flags(command)


@pytest.mark.parametrize("name", GO_FLAGS)
def test_every_flag_of_the_tool_it_replaces(name: str) -> None:
    assert {f"--{flag}" for flag in GO_FLAGS[name].split()} <= _flags(subcommands(cli)[name])


@pytest.mark.parametrize(("path", "command"), COMMANDS)
def test_a_wrong_flag_is_one_clear_line(path: Path_, command: click.Command) -> None:
    del command
    result = CliRunner().invoke(cli, [*path, "--no-such-flag"])
    assert result.exit_code == 2
    assert re.fullmatch(r"Error: No such option:? '?--no-such-flag'?\.?", result.stderr.splitlines()[-1])


@pytest.mark.parametrize("arguments", [("--version",), ("tail", "--version"), ("stat", "-version")])
def test_version(arguments: Path_) -> None:
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0
    assert re.fullmatch(r"nsq-anyio, version \d+\.\d+\.\d+\S*\n", result.output)


LOOKUPD = f"--lookupd-http-address={DEAD}"
UNREACHABLE = [
    ("tail", "--topic=t", LOOKUPD),
    ("tail", "--topic=t", f"--nsqd-tcp-address={DEAD}"),
    ("pub", "--topic=t", f"--nsqd-tcp-address={DEAD}"),
    ("stat", LOOKUPD),
    ("stat", "--topic=t", "--channel=c", f"--nsqd-http-address={DEAD}"),
    ("to-file", "--topic=t", "--output-dir=.", LOOKUPD),
    ("to-http", "--topic=t", "--post=http://127.0.0.1:1/", LOOKUPD),
    ("to-nsq", "--topic=t", f"--destination-nsqd-tcp-address={DEAD}", LOOKUPD),
    ("topic", "list", LOOKUPD),
    ("topic", "create", "t", LOOKUPD),
    ("channel", "pause", "t", "c", LOOKUPD),
    ("node", "list", LOOKUPD),
]


@pytest.mark.parametrize("arguments", UNREACHABLE, ids="-".join)
def test_servers_that_are_not_there_are_one_clear_line(arguments: Path_, tmp_path: Path) -> None:
    arguments = tuple(f"--output-dir={tmp_path}" if each == "--output-dir=." else each for each in arguments)
    result = run(*arguments, data=b"m\n")
    log = result.stderr.decode()
    assert result.returncode == 1, log
    assert result.stdout == b""
    assert log.startswith("Error: ")
    assert log.count("\n") == 1
    assert DEAD in log


MISTAKES = [
    (("tail", LOOKUPD), "Missing option '--topic'"),
    (("tail", "--topic=t"), "--nsqd-tcp-address or --lookupd-http-address: one of them is needed"),
    (("tail", "--topic=t", LOOKUPD, f"--nsqd-tcp-address={DEAD}"), "not both"),
    (("tail", "--topic=a b", LOOKUPD), "'a b'"),
    (("tail", "--topic=t", "--lookupd-http-address=ftp://x"), "ftp://x"),
    (("tail", "--topic=t", "--nsqd-tcp-address=x"), "'x'"),
    (("tail", "--topic=t", LOOKUPD, "--max-in-flight=0"), "--max-in-flight"),
    (("tail", "--topic=t", LOOKUPD, "--snappy", "--deflate"), "snappy"),
    (("tail", "--topic=t", LOOKUPD, "--tls-min-version=9"), "'9' is not a version"),
    (("tail", "--topic=t", LOOKUPD, "--auth-secret=a", f"--auth-secret-file={__file__}"), "not both"),
    (("tail", "--topic=t", LOOKUPD, "--auth-secret-file=/no/such"), "/no/such"),
    (("tail", "--topic=t", LOOKUPD, "--consumer-opt=no_such,1"), "there is no option 'no_such'"),
    (
        ("tail", "--topic=t", LOOKUPD, "--consumer-opt=max_attempts,many"),
        "max_attempts: 'many' is not a number",
    ),
    (("tail", "--topic=t", LOOKUPD, "--consumer-opt=msg_timeout,5"), "msg_timeout: '5' is not a duration"),
    (("tail", "--topic=t", LOOKUPD, "--consumer-opt=snappy,maybe"), "snappy: 'maybe' is not a boolean"),
    (("tail", "--topic=t", LOOKUPD, "--consumer-opt=sample_rate,100"), "sample_rate"),
    (("tail", "--topic=t", LOOKUPD, "--backend=curio"), "--backend"),
    (("pub", "--topic=t", f"--nsqd-tcp-address={DEAD}", "/no/such"), "/no/such"),
    (("stat", "--channel=c", LOOKUPD), "--channel needs --topic"),
    (("stat", "--interval=0", LOOKUPD), "more than 0"),
    (("stat", "--count=0", LOOKUPD), "--count"),
    (("stat",), "no server given"),
    (("to-file", "--topic-pattern=(", LOOKUPD), "--topic-pattern"),
]


@pytest.mark.parametrize(("arguments", "what"), MISTAKES, ids=lambda value: str(value)[:60])
def test_a_wrong_command_line_is_one_clear_line(arguments: Path_, what: str) -> None:
    result = run(*arguments)
    log = result.stderr.decode()
    assert result.returncode == 2, log
    assert result.stdout == b""
    assert "Traceback" not in log
    last = log.splitlines()[-1]
    assert last.startswith("Error: ")
    assert what in last


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
        "note: --consumer-opt read_timeout has no effect: "
        "a connection ends after two heartbeats that do not come\n"
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
