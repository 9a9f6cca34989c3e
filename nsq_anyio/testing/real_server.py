"""The real nsqd and nsqlookupd, each in its own process for the length of an ``async with`` block.

They listen on 127.0.0.1, on ports that the system picks; their log names the ports.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import httpx
from anyio.abc import Process

from ..errors import NSQError

START_LIMIT = 15.0
"""The seconds in which a server must be ready."""

STOP_LIMIT = 10.0
"""The seconds after SIGTERM until a server is killed."""

LOG_TAIL = 64 * 1024
"""The most bytes of its log that a server returns."""

_LISTENING = re.compile(r"\b(TCP|HTTP|HTTPS): listening on (\S+)\n")


class RealServerError(NSQError):
    """A real server is missing, did not start, or ended by itself. The text contains the tail of its log."""


@dataclass(slots=True, eq=False)
class RealServer:
    """A running nsqd or nsqlookupd."""

    name: str
    process: Process
    log_path: Path
    tcp_address: str = ""
    """The address of NSQ's protocol: ``127.0.0.1:port``, or the path of a unix socket."""
    http_url: str = ""
    """The URL of the HTTP API: ``http://127.0.0.1:port``, or ``unix:`` and the path of a socket."""
    https_url: str | None = None
    """The URL of the API by HTTPS; None without a certificate."""
    _was_asked_to_end: bool = field(default=False, init=False)

    @property
    def tcp_port(self) -> int:
        """The port of `tcp_address`."""
        return int(self.tcp_address.rpartition(":")[2])

    @property
    def http_port(self) -> int:
        """The port of `http_url`."""
        return int(self.http_url.rpartition(":")[2])

    @property
    def log(self) -> str:
        """Its log, at most the last 64 KiB; readable until the block ends."""
        with self.log_path.open("rb") as log:
            log.seek(max(0, self.log_path.stat().st_size - LOG_TAIL))
            return log.read().decode(errors="replace")

    @property
    def has_crashed(self) -> bool:
        """Whether it ended without a call of `stop` or `kill`."""
        return self.process.returncode is not None and not self._was_asked_to_end

    async def stop(self) -> None:
        """Ask it to end (SIGTERM) and wait; kill it when it has not ended in 10 seconds."""
        self._send_signal(signal.SIGTERM)
        with anyio.move_on_after(STOP_LIMIT):
            await self.process.wait()
            return
        await self.kill()

    async def kill(self) -> None:
        """Kill it (SIGKILL), as in a crash, and wait until it is gone."""
        self._send_signal(signal.SIGKILL)
        await self.process.wait()

    def _send_signal(self, number: signal.Signals) -> None:
        if self.process.returncode is None:
            self._was_asked_to_end = True
            self.process.send_signal(number)

    async def become_ready(self, listeners: set[str]) -> None:
        """Wait until it listens for all of ``listeners`` and answers /ping; internal."""
        found: dict[str, str] = {}
        with anyio.move_on_after(START_LIMIT) as limit:
            while not listeners <= found.keys():
                if self.process.returncode is not None:
                    raise RealServerError(
                        self.describe(f"ended with {self.process.returncode} while it started")
                    )
                await anyio.sleep(0.005)
                found = dict(_LISTENING.findall(self.log))
            self.tcp_address = found.get("TCP", "")
            http_address = found["HTTP"]
            self.http_url = ("unix:" if http_address.startswith("/") else "http://") + http_address
            self.https_url = f"https://{found['HTTPS']}" if "HTTPS" in found else None
            await self._ping()
        if limit.cancelled_caught:
            raise RealServerError(self.describe(f"was not ready after {START_LIMIT:g} s"))

    async def _ping(self) -> None:
        # Without trust_env, a proxy that is set for the machine does not come between a test and its server.
        scheme, _, address = self.http_url.partition(":")
        transport = httpx.AsyncHTTPTransport(uds=address) if scheme == "unix" else None
        async with httpx.AsyncClient(trust_env=False, transport=transport) as client:
            reply = await client.get("http://nsqd/ping" if transport else f"{self.http_url}/ping")
        # nsqd with --tls-required answers everything in clear text with 403, and is ready all the same.
        if reply.text != "OK" and "TLS_REQUIRED" not in reply.text:
            raise RealServerError(self.describe(f"answered /ping with {reply.status_code} {reply.text!r}"))

    def describe(self, problem: str) -> str:
        """Return the text of an error, with the tail of the log; internal."""
        return f"{self.name} {problem}; its log:\n{self.log}"


def program(directory: Path, name: str) -> Path:
    """Return the path of the NSQ program ``name``, such as ``nsqd``, in a directory.

    :raises RealServerError: if it is not there
    """
    path = directory / (f"{name}.exe" if os.name == "nt" else name)
    if not path.is_file():
        raise RealServerError(f"{path} is missing: name the directory that has {name}")
    return path


@asynccontextmanager
async def real_nsqd(
    directory: Path,
    *,
    tcp_port: int = 0,
    http_port: int = 0,
    unix_path: Path | None = None,
    http_unix_path: Path | None = None,
    lookupd_tcp_addresses: Sequence[str] = (),
    broadcast_address: str = "127.0.0.1",
    data_path: Path | None = None,
    flags: Sequence[str] = (),
) -> AsyncGenerator[RealServer]:
    """Run nsqd for the length of the block.

    :param directory: where the program ``nsqd`` is
    :param tcp_port: the port; 0 lets the system pick one
    :param http_port: the same for HTTP
    :param unix_path: the unix socket to listen on instead of a port
    :param http_unix_path: the same for HTTP
    :param lookupd_tcp_addresses: the nsqlookupds to register with, ``host:port``
    :param broadcast_address: the host that nsqlookupds tell clients to connect to
    :param data_path: an existing directory that outlives the block, to hand messages to a later nsqd
    :param flags: more of nsqd's flags, such as ``--mem-queue-size=0``; they override the flags set here
    :raises RealServerError: if it is missing, did not start, or ended by itself during the block
    """
    arguments = [
        f"--tcp-address={unix_path or f'127.0.0.1:{tcp_port}'}",
        f"--http-address={http_unix_path or f'127.0.0.1:{http_port}'}",
        "--https-address=127.0.0.1:0",
        f"--broadcast-address={broadcast_address}",
        *(f"--lookupd-tcp-address={address}" for address in lookupd_tcp_addresses),
    ]
    # nsqd listens for HTTPS only when it has a certificate.
    has_tls = any(flag.lstrip("-").startswith("tls-cert") for flag in flags)
    with tempfile.TemporaryDirectory(prefix="nsqd-") as own:
        arguments += [f"--data-path={data_path or own}", *flags]
        listeners = {"TCP", "HTTP", "HTTPS"} if has_tls else {"TCP", "HTTP"}
        async with real_server(program(directory, "nsqd"), arguments, listeners, Path(own)) as server:
            yield server


@asynccontextmanager
async def real_nsqlookupd(
    directory: Path, *, tcp_port: int = 0, http_port: int = 0, flags: Sequence[str] = ()
) -> AsyncGenerator[RealServer]:
    """Run nsqlookupd for the length of the block.

    :param directory: where the program ``nsqlookupd`` is
    :param tcp_port: 0 lets the system pick a port
    :param http_port: the same for HTTP
    :param flags: more of nsqlookupd's flags; they override the flags set here
    :raises RealServerError: if it is missing, did not start, or ended by itself during the block
    """
    arguments = [
        f"--tcp-address=127.0.0.1:{tcp_port}",
        f"--http-address=127.0.0.1:{http_port}",
        "--broadcast-address=127.0.0.1",
        *flags,
    ]
    with tempfile.TemporaryDirectory(prefix="nsqlookupd-") as own:
        async with real_server(
            program(directory, "nsqlookupd"), arguments, {"TCP", "HTTP"}, Path(own)
        ) as server:
            yield server


@asynccontextmanager
async def real_server(
    path: Path, arguments: Sequence[str], listeners: set[str], directory: Path
) -> AsyncGenerator[RealServer]:
    """Run a program of NSQ for the length of the block.

    :param path: the program
    :param arguments: its flags
    :param listeners: which of ``TCP``, ``HTTP`` and ``HTTPS`` it listens for, as its log names them
    :param directory: where its log is written
    :raises RealServerError: if it did not start, or ended by itself during the block
    """
    # The log goes to a file: a server never waits for a reader of its log, and no task has to read it.
    log_path = directory / "log"
    command = [str(path), *arguments]
    with log_path.open("wb") as log:
        process = await anyio.open_process(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    server = RealServer(path.stem, process, log_path)
    async with process:
        try:
            await server.become_ready(listeners)
            yield server
            crashed = server.has_crashed
        finally:
            with anyio.CancelScope(shield=True):
                await server.stop()
    if crashed:
        raise RealServerError(server.describe(f"ended by itself with {process.returncode}"))
