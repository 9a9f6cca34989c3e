"""The errors of commands name flags, and not the parameters and options of Python."""

from __future__ import annotations

import shlex
from typing import Any

import click
import pytest
from click.testing import CliRunner

from nsq_anyio.cli.command import UtilityCommand
from nsq_anyio.cli.event_loop import run_to_end
from nsq_anyio.cli.main import cli
from nsq_anyio.errors import PermanentRefusal, TLSFailed

TAIL = "tail --topic clicks --nsqd 127.0.0.1:4150"


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (
            "admin --nsqd-http-address a:1 --poll-interval 0s",
            "--poll-interval 0.0 is not valid: use 0.01 or more (seconds)",
        ),
        (
            "admin --nsqd-http-address a:1 --allow-config-from-cidr x",
            "--allow-config-from-cidr 'x' is not valid: use a network such as '10.0.0.0/8'",
        ),
        (f"{TAIL} --snappy --deflate", "--snappy and --deflate exclude each other: choose one"),
        (
            f"{TAIL} --consumer-opt max_attempts,-5",
            "--consumer-opt max_attempts,-5 is not valid: use 0 to 65535",
        ),
        (
            f"{TAIL} --consumer-opt msg_timeout,5ms",
            "--consumer-opt msg_timeout,5ms is not valid: use 1 or more or None (seconds)",
        ),
        (
            "tail --topic clicks --nsqd a:4150,b:4150",
            "nsqd address 'a:4150,b:4150' is more than one: give each by itself, 'a:4150' and 'b:4150'",
        ),
        (
            f"{TAIL} --tls --tls-private-key-file key.pem",
            "a private key without a certificate is of no use: set --tls-certificate-file as well",
        ),
        (
            "run app.py:handler --topic clicks --channel archive --nsqd a:4150",
            "'app.py:handler' is not MODULE:HANDLER: use, for example, 'app.tasks:handler'",
        ),
        (
            "run app:handler --topic clicks --channel archive --nsqd a:4150 --http-address 8080",
            "'8080' is not an address: use host:port, such as 127.0.0.1:4150",
        ),
    ],
)
def test_of_a_command_line(command: str, error: str) -> None:
    result = CliRunner().invoke(cli, shlex.split(command))
    assert result.exit_code == 2
    assert result.stderr.endswith(f"Error: {error}\n")


@pytest.mark.parametrize(
    ("cause", "error"),
    [
        (
            TLSFailed("a:4150", "set TLSOptions(certificate_file=..., private_key_file=...)"),
            "nsqd a:4150: set --tls-certificate-file and --tls-private-key-file",
        ),
        (
            PermanentRefusal("E_AUTH_FIRST", "set ConnectionOptions(auth_secret=...)"),
            "E_AUTH_FIRST set --auth-secret",
        ),
        (
            PermanentRefusal("E_BAD_TOPIC", "dialer=... and Options(x)"),
            "E_BAD_TOPIC dialer=... and Options(x)",
        ),
    ],
)
def test_of_a_server(cause: Exception, error: str) -> None:
    @click.command(cls=UtilityCommand)
    @click.option("--tls-certificate-file")
    @click.option("--tls-private-key-file")
    @click.option("--auth-secret")
    def command(**_flags: Any) -> None:
        async def main() -> None:
            raise cause

        run_to_end(main, "asyncio")

    result = CliRunner().invoke(command)
    assert result.exit_code == 1
    assert result.stderr == f"Error: {error}\n"
