"""Numbers that count nothing, wherever a command takes one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from nsq_anyio.cli.flags.kinds import Integer, Number, duration
from nsq_anyio.cli.main import cli

NO_NUMBERS = ["nan", "NaN", "-nan", "inf", "-inf", "infinity", "1e400", "-1e400"]
TO_HTTP = ["to-http", "--topic=t", "--nsqd-tcp-address=h:1", "--post=http://h/"]


def flags_of(command: click.Command, path: str = "") -> Iterator[tuple[str, click.Parameter]]:
    """All flags and arguments of a command and of those below it."""
    if not isinstance(command, click.Group):
        yield from ((f"{path} {parameter.name}", parameter) for parameter in command.params)
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        below = command.get_command(context, name)
        assert below is not None
        yield from flags_of(below, f"{path} {name}")


FLAGS = dict(flags_of(cli))


@pytest.mark.parametrize("flag", FLAGS)
def test_no_flag_takes_what_is_no_finite_number(flag: str) -> None:
    parameter = FLAGS[flag]
    for text in [*NO_NUMBERS, "9" * 400 + "s"]:
        try:
            value = parameter.type.convert(text, parameter, click.Context(click.Command("x")))
        except click.BadParameter:
            continue
        except OSError:
            continue  # a file of that name
        assert not isinstance(value, float) or math.isfinite(value)


def test_each_flag_for_a_number_with_a_fraction_is_of_the_kind_that_checks() -> None:
    numbers = [
        flag for flag, parameter in FLAGS.items() if isinstance(parameter.type, click.types.FloatParamType)
    ]
    assert " to-http sample" in numbers
    assert [flag for flag in numbers if not isinstance(FLAGS[flag].type, Number)] == []


def test_each_flag_for_a_number_in_a_range_is_of_the_kind_that_says_what_to_use() -> None:
    numbers = [flag for flag, parameter in FLAGS.items() if isinstance(parameter.type, click.IntRange)]
    assert {" pub rate", " to-http n", " to-nsq status_every", " to-file gzip_level"} <= set(numbers)
    assert [flag for flag in numbers if not isinstance(FLAGS[flag].type, Integer)] == []


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_the_environment(text: str) -> None:
    done = CliRunner(env={"NSQ_ANYIO_TO_HTTP_SAMPLE": text}).invoke(cli, TO_HTTP)
    assert done.exit_code == 2
    assert "Invalid value for '--sample'" in done.stderr


@pytest.mark.parametrize("text", ["nan", "+inf", "-inf", "1e400"])
def test_a_configuration_file(tmp_path: Path, text: str) -> None:
    path = tmp_path / "nsq.toml"
    path.write_text(f"[to-http]\nsample = {text}\n")
    done = CliRunner().invoke(cli, [*TO_HTTP, f"--config={path}"])
    assert done.exit_code == 2
    assert "sample" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "pair",
    [
        "lookupd_poll_jitter,nan",
        "lookupd_poll_jitter,inf",
        "drain_timeout,nan",
        "heartbeat_interval,-nan",
        "output_buffer_timeout,-inf",
    ],
)
def test_options_of_a_consumer(pair: str) -> None:
    done = CliRunner().invoke(cli, [*TO_HTTP, f"--consumer-opt={pair}"])
    assert done.exit_code == 2
    assert pair.partition(",")[0] in done.stderr


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0.0), ("1m30s", 90.0), ("2562046h", 2562046 * 3600.0), ("9223372036s", 9223372036.0)],
)
def test_durations(text: str, seconds: float) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["2562048h", "9223372037s", "9" * 400 + "s", "nan", "infs", "\u0663s", "1e3s", "-1s", ""]
)
def test_no_durations(text: str) -> None:
    """Go's time.ParseDuration refuses these too, but for the negative one."""
    with pytest.raises(click.BadParameter):
        duration(text)
