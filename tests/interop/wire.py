"""The ways a connection's bytes can travel: {plain, TLS} x {as they are, snappy, deflate} x {AUTH or not}."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, cast

import anyio

import nsq_anyio as nsq
from nsq_anyio.events import EventHook

from ..auth_server import Account
from ..layered_nsqd import Compression
from ..tls_files import KeyPair, TLSFiles
from .observe import LIMIT

TLSVersion = Literal["TLSv1.2", "TLSv1.3"]
Use = Literal["consume", "produce"]

COMPRESSIONS: tuple[Compression, ...] = ("snappy", "deflate")
USES: tuple[Use, ...] = ("consume", "produce")
"""The two that connect to nsqd."""

SECRET = "s3cret of the interop tests: \u00e4&=+%\n"
"""With characters that a query, JSON and a line would each have to quote."""

IDENTITY = "interop"
ACCOUNTS = {SECRET: Account(IDENTITY, identity_url="http://id.example/interop")}


@dataclass(frozen=True, slots=True)
class Cell:
    """One of the ways; ``str()`` names it."""

    tls: TLSVersion | None = None
    compression: Compression | None = None
    auth: bool = False

    def __str__(self) -> str:
        return "-".join([self.tls or "plain", self.compression or "none", "auth" if self.auth else "open"])

    def options(
        self, files: TLSFiles, *, server_hostname: str | None = None, **others: Any
    ) -> nsq.ConnectionOptions:
        """What makes a client go this way."""
        tls = nsq.TLSOptions(ssl_context=self._context(files), server_hostname=server_hostname)
        return nsq.ConnectionOptions(
            tls=False if self.tls is None else tls,
            snappy=self.compression == "snappy",
            deflate=self.compression == "deflate",
            auth_secret=SECRET if self.auth else None,
            **others,
        )

    def _context(self, files: TLSFiles) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=files.ca_file)
        version = ssl.TLSVersion.TLSv1_2 if self.tls == "TLSv1.2" else ssl.TLSVersion.TLSv1_3
        context.minimum_version = context.maximum_version = version
        return context

    def check(self, client: nsq.http.ClientStats) -> None:
        """nsqd sees the client come this way."""
        assert (client.tls, client.snappy, client.deflate, client.authed) == (
            self.tls is not None,
            self.compression == "snappy",
            self.compression == "deflate",
            self.auth,
        )
        if self.tls is not None:
            assert client.tls_version == self.tls.replace("v", "")
        assert client.auth_identity == (IDENTITY if self.auth else "")


def tls_server(pair: KeyPair, files: TLSFiles) -> dict[str, Any]:
    """The options of an nsqd that shows this certificate, and trusts clients of the same authority."""
    return {
        "tls_cert": pair.certificate_file,
        "tls_key": pair.private_key_file,
        "tls_root_ca_file": files.ca_file,
    }


def cells(*, tls: Sequence[TLSVersion | None], auth: Sequence[bool] = (False, True)) -> list[Cell]:
    """Every combination."""
    return [Cell(*values) for values in product(tls, (None, *COMPRESSIONS), auth)]


async def refusal(use: Use, nsqd: str, options: nsq.ConnectionOptions, *, limit: float = 1.0) -> nsq.NSQError:
    """What is raised when ``nsqd`` is consumed from, or published to.

    :raises TimeoutError: if nothing is, for ``limit`` seconds
    """
    try:
        with anyio.fail_after(limit):
            if use == "consume":
                async with nsq.consume("t", "c", nsqd=nsqd, connection=options):
                    await anyio.sleep_forever()
            async with nsq.produce(nsqd, connection=options) as producer:
                await producer.publish("t", b"body")
                await anyio.sleep_forever()
    except nsq.NSQError as error:
        return error
    raise AssertionError("the block ended by itself")


@asynccontextmanager
async def using(
    use: Use, nsqd: str, options: nsq.ConnectionOptions, on_event: EventHook | None = None
) -> AsyncGenerator[None]:
    """Consume from ``nsqd``, or publish to it; the block begins once that has worked.

    :raises TimeoutError: if it does not work
    """
    if use == "consume":
        async with nsq.consume("t", "c", nsqd=nsqd, connection=options, on_event=on_event) as consumer:
            with anyio.fail_after(LIMIT):
                await consumer.ready()
            yield
    else:
        async with nsq.produce(nsqd, connection=options, on_event=on_event) as producer:
            with anyio.fail_after(LIMIT):
                await producer.publish("t", b"body")
            yield


def shown(error: BaseException) -> Iterator[str]:
    """All that a traceback of the error would show of it, and of what led to it."""
    seen: set[int] = set()
    found: list[BaseException | None] = [error]
    while found:
        one = found.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield from (str(one), repr(one), repr(one.args), repr(getattr(one, "__notes__", "")))
        found += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            found += cast("BaseExceptionGroup[BaseException]", one).exceptions
