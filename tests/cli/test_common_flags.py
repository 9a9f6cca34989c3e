"""What all commands have in common: help with an example, Go's flags, one clear line for a mistake."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from nsq_anyio.cli.command import UtilityCommand
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
    "admin": "acl-http-header admin-user allow-config-from-cidr base-path config dev-static-dir graphite-url "
    "http-address http-client-connect-timeout http-client-request-timeout http-client-tls-cert "
    "http-client-tls-insecure-skip-verify http-client-tls-key http-client-tls-root-ca-file log-level "
    "log-prefix lookupd-http-address notification-http-endpoint nsqd-http-address proxy-graphite "
    "statsd-counter-format statsd-gauge-format statsd-interval statsd-prefix verbose version",
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
    assert max(map(len, result.output.splitlines())) <= 80


GROUPS = ("topic", "channel", "node", "dead-letter", "delay", "pipeline")


@pytest.mark.parametrize("path", [(), *((name,) for name in GROUPS)])
def test_help_of_a_group_has_whole_sentences(path: Path_) -> None:
    result = CliRunner().invoke(cli, [*path, "--help"], prog_name="nsq-anyio")
    assert result.exit_code == 0
    usage, _, commands = result.output.partition("Commands:\n")
    assert commands
    assert "..." not in usage.partition("COMMAND [ARGS]...")[2] + commands
    assert max(map(len, result.output.splitlines())) <= 80


ADDRESSES = {
    ("--nsqd-tcp-address", "--nsqd"),
    ("--lookupd-http-address", "--nsqlookupd"),
    ("--destination-nsqd-tcp-address", "--destination-nsqd"),
    ("--destination-lookupd-http-address", "--destination-nsqlookupd"),
    ("--output-nsqd-tcp-address", "--output-nsqd"),
    ("--nsqd-http-address",),
}


@pytest.mark.parametrize(("path", "command"), UTILITIES)
def test_servers_have_the_same_flags_in_every_command(path: Path_, command: click.Command) -> None:
    options = [each for each in command.params if isinstance(each, click.Option)]
    named = {tuple(each.opts) for each in options if {*each.opts} & {*sum(ADDRESSES, ())}}
    repeatable = {
        tuple(each.opts) for each in options if each.multiple and (each.metavar or "").startswith("HOST:PORT")
    }
    assert named <= ADDRESSES
    assert repeatable == named
    on_files = {("spool", "list"), ("spool", "delete"), ("delay", "list"), ("delay", "stats")}
    assert named or path in {("completion",), ("up",), ("delay", "cancel"), *on_files}


@pytest.mark.parametrize("name", ["tail", "demo"])
@pytest.mark.parametrize("flag", ["--nsqlookupd", "-nsqlookupd", "--lookupd-http-address"])
def test_each_name_of_a_flag_is_the_flag(name: str, flag: str) -> None:
    result = CliRunner().invoke(cli, [name, "--topic=t", flag, "ftp://x"])
    assert result.exit_code == 2
    assert "ftp://x" in result.stderr


@pytest.mark.parametrize("variable", ["NSQ_ANYIO_TAIL_NSQLOOKUPD", "NSQ_ANYIO_TAIL_LOOKUPD_HTTP_ADDRESS"])
def test_each_name_of_a_flag_has_a_variable(variable: str) -> None:
    result = CliRunner().invoke(cli, ["tail", "--topic=t"], env={variable: "ftp://x"})
    assert result.exit_code == 2
    assert "ftp://x" in result.stderr


@pytest.mark.parametrize("key", ["nsqlookupd", "lookupd-http-address"])
def test_each_name_of_a_flag_is_a_key(key: str, tmp_path: Path) -> None:
    config = tmp_path / "nsq.toml"
    config.write_text(f'{key} = "ftp://x"\n')
    result = CliRunner().invoke(cli, ["tail", "--topic=t", "--config", str(config)])
    assert result.exit_code == 2
    assert "ftp://x" in result.stderr


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
    (("exporter",), "no server given"),
    (("exporter", "--interval=0", LOOKUPD), "more than 0"),
    (("exporter", "--interval=1ms", LOOKUPD), "--interval 0.001 is not valid"),
    (("exporter", "--max-channels=0", LOOKUPD), "--max-channels"),
    (("exporter", "--topic-pattern=(", LOOKUPD), "--topic-pattern"),
    (("exporter", "--http-address=nowhere", LOOKUPD), "'nowhere' is not an address"),
    (("exporter", "--lookupd-http-address=ftp://x"), "ftp://x"),
    (("admin",), "no server given"),
    (("admin", LOOKUPD, f"--nsqd-http-address={DEAD}"), "not both"),
    (("admin", LOOKUPD, "--base-path=/a b"), "--base-path '/a b' is not valid"),
    (("admin", LOOKUPD, "--admin-user="), "admin_users"),
    (("admin", LOOKUPD, "--allow-config-from-cidr=x"), "--allow-config-from-cidr 'x' is not valid"),
    (("admin", LOOKUPD, "--http-address=nowhere"), "'nowhere' is not an address"),
    (("admin", LOOKUPD, "--notification-http-endpoint=ftp://x"), "ftp://x"),
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
