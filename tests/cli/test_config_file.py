"""Flags from a TOML file and from the environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from nsq_anyio.cli.command import UtilityCommand, command_flags
from nsq_anyio.cli.main import cli


@click.group(context_settings={"auto_envvar_prefix": "NSQ_ANYIO"})
def root() -> None:
    """Stands in for the group of all commands."""


@root.group()
def group() -> None:
    """Has a command, and the name of a flag."""


def _command(name: str) -> click.Command:
    @command_flags
    @click.option("--topic", "topics", multiple=True)
    @click.option("--count", type=int, default=0)
    @click.option("--json", "json_lines", is_flag=True)
    @click.option("--some-opt", multiple=True)
    @click.option("--group")
    def show(**values: Any) -> None:
        click.echo(json.dumps(values))

    return click.command(name, cls=UtilityCommand)(show)


root.add_command(_command("one"))
group.add_command(_command("two"))


def _run(*arguments: str, **env: str) -> dict[str, Any]:
    result = CliRunner().invoke(root, arguments, env=env)
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def _file(tmp_path: Path, text: str) -> str:
    path = tmp_path / "nsq.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


FILE = """
backend = "trio"
count = 1

[one]
topic = ["a", "b"]
count = 2
json = true
some_opt = { key = 5, other = true }

[group.two]
topic = "c"
"""


def test_a_table_wins_over_common_keys(tmp_path: Path) -> None:
    assert _run("one", "--config", _file(tmp_path, FILE)) == {
        "backend": "trio",
        "group": None,
        "topics": ["a", "b"],
        "count": 2,
        "json_lines": True,
        "some_opt": ["key,5", "other,true"],
    }


def test_the_table_of_a_command_in_a_group(tmp_path: Path) -> None:
    found = _run("group", "two", "--config", _file(tmp_path, FILE))
    assert found["topics"] == ["c"]
    assert found["count"] == 1
    assert not found["json_lines"]


def test_a_flag_may_have_the_name_of_a_group(tmp_path: Path) -> None:
    assert _run("one", "--config", _file(tmp_path, "group = 'common'"))["group"] == "common"


def test_the_command_line_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    path = _file(tmp_path, FILE)
    assert _run("one", "--config", path, "--count=4", NSQ_ANYIO_ONE_COUNT="3")["count"] == 4
    assert _run("one", "--config", path, NSQ_ANYIO_ONE_COUNT="3")["count"] == 3


def test_the_environment_names_flags_as_the_command_line_does() -> None:
    found = _run("one", NSQ_ANYIO_ONE_TOPIC="a b", NSQ_ANYIO_ONE_JSON="true", NSQ_ANYIO_ONE_SOME_OPT="k,v")
    assert found["topics"] == ["a", "b"]
    assert found["json_lines"]
    assert found["some_opt"] == ["k,v"]
    assert _run("group", "two", NSQ_ANYIO_GROUP_TWO_COUNT="7")["count"] == 7


def test_the_environment_names_the_file(tmp_path: Path) -> None:
    assert _run("one", NSQ_ANYIO_CONFIG=_file(tmp_path, FILE))["count"] == 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("count = ", "Invalid value"),
        ("nothing = 1", "nothing: no command has a flag --nothing"),
        ("[three]\ncount = 1", "[three] is not a command"),
        ("[noe]\ncount = 1", "[noe] is not a command: did you mean [one]?"),
        ("cuont = 1", "cuont: no command has a flag --cuont: did you mean count?"),
        ("[one]\ncuont = 1", "one.cuont: the command has no flag --cuont: did you mean count?"),
        ("[group.three]\ncount = 1", "group.three is not the table of a command"),
        ("[group]\ncount = 1", "group.count is not the table of a command"),
        ("[one]\njson = 1", "json = 1 is not valid: use true or false"),
        ("[one]\ncount = [1]", "count = [1] is not valid: use a string, a number, true or false"),
        ("[one]\nconfig = 'x'", "one.config: the command has no flag --config"),
        ("[one]\ncount = 'many'", "'many' is not a valid integer"),
        ("topic = '\xff'", "can't decode"),
        ("topic = " + "[" * 10_000, "nsq.toml is not a TOML file: "),
    ],
)
def test_a_mistake_in_the_file_is_one_clear_line(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "nsq.toml"
    path.write_bytes(text.encode("latin-1"))
    result = CliRunner().invoke(root, ["one", "--config", str(path)])
    assert result.exit_code == 2
    last = result.stderr.splitlines()[-1]
    assert last.startswith("Error: Invalid value for '--")
    assert problem in last


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    result = CliRunner().invoke(root, ["one", "--config", str(tmp_path / "none")])
    assert result.exit_code == 2
    assert f"cannot read {tmp_path / 'none'}: No such file or directory" in result.stderr


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "admin_userz = ['ann']",
            "admin_userz: no command has a flag --admin-userz: did you mean admin-user?",
        ),
        ("http_client_request_timeout = true", "http_client_request_timeout = True is not valid: "),
        ("http_client_request_timeout = 'soon'", "'soon' is not a duration"),
        ("admin_users = ['ann', 1]", "admin_users = ['ann', 1] is not valid: use a list of strings"),
        ("nsqlookupd_http_addresses = 1", "'1' "),
        ("http-client-request-timeout = 5", "'5' is not a duration: use numbers with units"),
        ("[admin]\nnsqd_http_address = []\nhttp_adress = ':0'", "admin.http_adress: the command has no flag"),
    ],
)
def test_a_mistake_in_nsqadmins_own_file_is_one_clear_line(tmp_path: Path, text: str, problem: str) -> None:
    more = "" if "nsqlookupd" in text else 'nsqlookupd_http_addresses = ["127.0.0.1:1"]\n'
    result = CliRunner().invoke(cli, ["admin", "--config", _file(tmp_path, more + text)])
    assert result.exit_code == 2
    assert problem in result.stderr.splitlines()[-1]


def test_nsqadmins_own_file_serves_other_commands_too(tmp_path: Path) -> None:
    path = _file(tmp_path, 'nsqlookupd_http_addresses = ["127.0.0.1:1"]\nhttp_client_request_timeout = 500\n')
    result = CliRunner().invoke(cli, ["topic", "list", "--config", path])
    assert result.exit_code == 1
    assert "127.0.0.1:1" in result.stderr
