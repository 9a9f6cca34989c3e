"""``--consumer-opt`` and ``--producer-opt``: every option, by both names, from everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from nsq_anyio.cli.command import UtilityCommand
from nsq_anyio.cli.config_file import config_option
from nsq_anyio.cli.flags.connection import ConsumerFlags, ProducerFlags, connection_flags
from nsq_anyio.cli.flags.options import keys
from nsq_anyio.options import ConnectionOptions, ConsumerOptions, ProducerOptions, TLSOptions
from nsq_anyio.options.declaration import declarations
from nsq_anyio.options.kinds import Choice, Flag, Integer, Option, Ratio, Seconds, Text, Value

# What no text can say: functions and objects, and what the flags of TLS say.
BY_CODE_ALONE = {"dialer", "map_address", "ssl_context", "lookupd_tls"}
WITHOUT_OTHERS = {"private_key_file": "tls_cert,c.pem", "private_key_password": "tls_cert,c.pem"}


@click.group(context_settings={"auto_envvar_prefix": "NSQ_ANYIO"})
def group() -> None:
    """Hold the command."""


@group.command("pro-be", cls=UtilityCommand)
@click.option("--mode", default="all")
@connection_flags("consumer", "producer")
@config_option
def probe(**values: Any) -> None:
    """Hand over what the flags say."""
    click.get_current_context().obj.update(values)


def parsed(*arguments: str, env: dict[str, str] | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {}
    result = CliRunner().invoke(group, ["pro-be", *arguments], obj=found, env=env)
    assert result.exit_code == 0, result.output
    return found


def text_and_value(option: Option, default: object) -> tuple[str, object]:
    """A valid value that is not the default, as a text of the command line and as an option has it."""
    if isinstance(option, Seconds):
        return ("2500ms", 2.5) if option.high > 2.5 else ("0.5ms", 0.0005)
    if isinstance(option, Ratio):
        return "0.25", 0.25
    if isinstance(option, Integer):
        number = 7 if option.high < 64 else 77
        return str(number), number
    if isinstance(option, Flag):
        return str(not default).lower(), not default
    if isinstance(option, Choice):
        choice = next(choice for choice in option.choices if choice != default)
        return choice, choice
    assert isinstance(option, Text)
    return "text", "text"


CASES = [
    pytest.param(side, options, each.name, id=f"{side}-{options.__name__}.{each.name}")
    for side, own in (("consumer", ConsumerOptions), ("producer", ProducerOptions))
    for options in (own, ConnectionOptions, TLSOptions)
    for each in declarations(options)
    if each.name not in BY_CODE_ALONE | {"tls"}
]


@pytest.mark.parametrize(("side", "options", "name"), CASES)
def test_every_option_is_set_by_its_own_name_and_go_nsq_s(side: str, options: type, name: str) -> None:
    each = next(each for each in declarations(options) if each.name == name)
    text, value = text_and_value(each.option, each.default)
    own_name = f"tls_{name}" if options is TLSOptions else name
    names = {own_name: text, each.option.go_name(name) or own_name: text}
    if isinstance(each.option, Flag) and each.option.go_opposite:
        names[each.option.go_opposite] = str(not value).lower()
    for key, given in names.items():
        others = [f"--{side}-opt={WITHOUT_OTHERS[name]}"] if name in WITHOUT_OTHERS else []
        if "reconnect" in name:
            others = [f"--{side}-opt=max_reconnect_delay,1h"]
        found = parsed(*others, f"--{side}-opt={key},{given}")[side]
        tls = found.connection.tls or TLSOptions()
        place = {ConnectionOptions: found.connection, TLSOptions: tls}.get(options, found.options)
        assert getattr(place, name) == value, key


def test_what_no_text_can_say_is_code_s_alone() -> None:
    kinds = {ConnectionOptions, ConsumerOptions, ProducerOptions, TLSOptions}
    by_code = {
        each.name
        for options in kinds
        for each in declarations(options)
        if each.name not in keys("consumer")
        and each.name not in keys("producer")
        and f"tls_{each.name}" not in keys("consumer")
    }
    assert by_code == BY_CODE_ALONE
    assert parsed("--consumer-opt=tls")["consumer"].connection.tls == TLSOptions()
    assert {type(each.option) for each in declarations(ConnectionOptions)} >= {Value, Text}


def test_the_options_that_only_code_could_set_before() -> None:
    pairs = ("mode,hostpool", "coalesce,true", "linger,5ms", "max_batch_messages,9", "max_batch_bytes,99")
    producer: ProducerFlags = parsed(*(f"--producer-opt={pair}" for pair in (*pairs, "max_defer,2h")))[
        "producer"
    ]
    assert producer.options == ProducerOptions(
        mode="hostpool",
        coalesce=True,
        linger=0.005,
        max_batch_messages=9,
        max_batch_bytes=99,
        max_defer=7200.0,
    )


def test_a_mode_among_the_options_is_that_of_the_command_unless_its_flag_is_given() -> None:
    assert parsed()["mode"] == "all"
    assert parsed("--producer-opt=mode,least_outstanding")["mode"] == "least-outstanding"
    assert parsed("--producer-opt=mode,least_outstanding", "--mode=all")["mode"] == "all"


def test_each_key_has_a_variable() -> None:
    env = {
        "NSQ_ANYIO_PRO_BE_CONSUMER_OPT_MAX_ATTEMPTS": "7",
        "NSQ_ANYIO_PRO_BE_CONSUMER_OPT_DEFAULT_REQUEUE_DELAY": "1m",
        "NSQ_ANYIO_PRO_BE_CONSUMER_OPT_CLIENT_ID": "",
        "NSQ_ANYIO_PRO_BE_PRODUCER_OPT_COALESCE": "true",
        "NSQ_ANYIO_PRO_BE_PRODUCER_OPT_TLS_CA_FILE": "ca.pem",
    }
    found = parsed(env=env)
    consumer: ConsumerFlags = found["consumer"]
    producer: ProducerFlags = found["producer"]
    assert (consumer.options.max_attempts, consumer.options.requeue_delay) == (7, 60.0)
    assert consumer.connection.client_id
    assert producer.options.coalesce
    assert producer.connection.tls == TLSOptions(ca_file="ca.pem")


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    path = tmp_path / "flags.toml"
    path.write_text("[pro-be.consumer-opt]\nmax_attempts = 1\nsample_rate = 1\n")
    env = {"NSQ_ANYIO_PRO_BE_CONSUMER_OPT_MAX_ATTEMPTS": "2"}
    flags = [f"--config={path}"]
    consumer: ConsumerFlags = parsed(*flags, env=env)["consumer"]
    assert (consumer.options.max_attempts, consumer.connection.sample_rate) == (2, 1)
    consumer = parsed(*flags, "--consumer-opt=max_attempts,3", env=env)["consumer"]
    assert consumer.options.max_attempts == 3


def test_a_bad_variable_is_one_clear_line() -> None:
    env = {"NSQ_ANYIO_PRO_BE_CONSUMER_OPT_MAX_ATTEMPTS": "many"}
    result = CliRunner().invoke(group, ["pro-be"], obj={}, env=env)
    assert result.exit_code == 2
    assert "max_attempts: 'many' is not a number" in result.stderr


def test_what_a_command_prefers_gives_way_to_the_user() -> None:
    consumer: ConsumerFlags = parsed()["consumer"]
    assert consumer.never_giving_up().options.max_attempts == 0
    for key in ("max_attempts", "max-attempts"):
        consumer = parsed(f"--consumer-opt={key},5")["consumer"]
        assert consumer.never_giving_up().options.max_attempts == 5
    producer: ProducerFlags = parsed("--producer-opt=coalesce,false")["producer"]
    preferred = producer.preferring(coalesce=True, resend_unknown=True).options
    assert (preferred.coalesce, preferred.resend_unknown) == (False, True)
