"""An unknown command is answered with the nearest ones."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from nsq_anyio.cli.main import cli


@pytest.mark.parametrize(
    ("given", "suggested"),
    [
        ("statt", "Did you mean 'stat'?"),
        ("nsq_to_file", "Did you mean 'to-file'"),
        ("nsq_tail", "Did you mean 'tail'?"),
        ("nsqlookup", "Did you mean 'nsqlookupd'"),
        ("TAIL", "Did you mean 'tail'?"),
    ],
)
def test_the_nearest_commands_are_suggested(given: str, suggested: str) -> None:
    result = CliRunner().invoke(cli, [given])
    assert result.exit_code == 2
    assert f"No such command {given!r}. {suggested}" in result.stderr


def test_nothing_is_suggested_for_what_is_like_no_command() -> None:
    result = CliRunner().invoke(cli, ["xyzzy"])
    assert result.exit_code == 2
    assert result.stderr.endswith("No such command 'xyzzy'.\n")


def test_a_subcommand_is_suggested_too() -> None:
    result = CliRunner().invoke(cli, ["dead-letter", "lst"])
    assert result.exit_code == 2
    assert "No such command 'lst'. Did you mean 'list'?" in result.stderr


def test_a_flag_in_place_of_a_command_is_a_flag() -> None:
    result = CliRunner().invoke(cli, ["--hlep"])
    assert result.exit_code == 2
    assert "No such option" in result.stderr
