"""The flags that say where messages come from or go to, and how to connect there."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from .kinds import FILE, Integer
from .options import OptionValues, option_values, pairs_in_effect, tls_version
from .values import ConsumerFlags, ProducerFlags, Source

if TYPE_CHECKING:
    import ssl

    from ...options import ConnectionOptions, TLSOptions

__all__ = [
    "ConsumerFlags",
    "ProducerFlags",
    "Source",
    "connection_flags",
    "consumer_flags",
    "producer_flags",
    "source_flags",
]

_Command = TypeVar("_Command", bound=Callable[..., Any])

_DEFAULT_MAX_IN_FLIGHT = 200
_CONNECTION, _TLS = "nsq_anyio.connection", "nsq_anyio.tls"


def source_flags(command: _Command) -> _Command:
    """Add ``--nsqd-tcp-address`` and ``--lookupd-http-address``; the command gets a ``source``."""

    def with_source(
        *args: Any, nsqd_tcp_address: Sequence[str], lookupd_http_address: Sequence[str], **kwargs: Any
    ) -> Any:
        if bool(nsqd_tcp_address) == bool(lookupd_http_address):
            given = "not both" if nsqd_tcp_address else "one of them is needed"
            raise click.UsageError(f"use --nsqd-tcp-address or --lookupd-http-address: {given}")
        nsqds = _checked_nsqds(nsqd_tcp_address) if nsqd_tcp_address else None
        _check_urls(lookupd_http_address)
        nsqlookupds = tuple(dict.fromkeys(lookupd_http_address)) or None
        return command(*args, source=Source(nsqds, nsqlookupds), **kwargs)

    return _with_options(
        command,
        with_source,
        click.option(
            "--nsqd-tcp-address",
            multiple=True,
            metavar="HOST:PORT|PATH",
            help="An nsqd to consume from; repeatable.",
        ),
        click.option(
            "--lookupd-http-address",
            multiple=True,
            metavar="HOST:PORT|URL",
            help="An nsqlookupd that knows the nsqds; name all of them, repeating the flag.",
        ),
    )


def connection_flags(command: _Command) -> _Command:
    """Add the flags of connections; `consumer_flags` and `producer_flags`, which stand below, use them."""

    def with_connection(
        *args: Any,
        tls: bool,
        tls_ca_file: str | None,
        tls_certificate_file: str | None,
        tls_private_key_file: str | None,
        tls_no_verify: bool,
        tls_server_hostname: str | None,
        tls_min_version: str,
        snappy: bool,
        deflate: bool,
        deflate_level: int,
        auth_secret: str | None,
        auth_secret_file: Path | None,
        **kwargs: Any,
    ) -> Any:
        if auth_secret is not None and auth_secret_file is not None:
            raise click.UsageError("use --auth-secret or --auth-secret-file, not both")
        from ...options import default_user_agent

        context = click.get_current_context()
        context.meta[_CONNECTION] = {
            "user_agent": f"{default_user_agent()} ({context.info_name})",
            "snappy": snappy,
            "deflate": deflate,
            "deflate_level": deflate_level,
            "auth_secret": auth_secret if auth_secret_file is None else _reader(auth_secret_file),
        }
        context.meta[_TLS] = {
            "tls": tls,
            "ca_file": tls_ca_file,
            "certificate_file": tls_certificate_file,
            "private_key_file": tls_private_key_file,
            "server_hostname": tls_server_hostname,
            "minimum_version": tls_min_version,
            "verify": not tls_no_verify,
        }
        return command(*args, **kwargs)

    return _with_options(command, with_connection, *_CONNECTION_OPTIONS)


def consumer_flags(command: _Command) -> _Command:
    """Add ``--max-in-flight`` and ``--consumer-opt``; the command gets `ConsumerFlags` as ``consumer``."""

    def with_consumer(
        *args: Any, max_in_flight: int | None, consumer_opt: Sequence[str], **kwargs: Any
    ) -> Any:
        from ...options import ConsumerOptions

        pairs = pairs_in_effect("consumer_opt", consumer_opt, "consumer")
        values = option_values("--consumer-opt", pairs, "consumer")
        own = {name: value for name, value in values.own.items() if name != "max_in_flight"}
        in_flight = values.own.get("max_in_flight", _DEFAULT_MAX_IN_FLIGHT)
        connection = _connection(values)
        # What a user trusts for nsqd is trusted for an https nsqlookupd.
        own["lookupd_tls"] = _without_server_hostname(connection.tls)
        consumer = ConsumerFlags(
            ConsumerOptions(**own), connection, max_in_flight or in_flight, frozenset(values.own)
        )
        return command(*args, consumer=consumer, **kwargs)

    return _with_options(
        command,
        with_consumer,
        click.option(
            "--max-in-flight",
            type=Integer(min=1),
            help=f"Unanswered messages at once, over all nsqds.  [default: {_DEFAULT_MAX_IN_FLIGHT}]",
        ),
        click.option(
            "--consumer-opt",
            multiple=True,
            metavar="KEY,VALUE",
            help="An option of the consumer, by go-nsq's names, such as max_attempts,0; repeatable.",
        ),
    )


def producer_flags(command: _Command) -> _Command:
    """Add ``--producer-opt``; the command gets `ProducerFlags` as ``producer``."""

    def with_producer(*args: Any, producer_opt: Sequence[str], **kwargs: Any) -> Any:
        from ...options import ProducerOptions

        pairs = pairs_in_effect("producer_opt", producer_opt, "producer")
        values = option_values("--producer-opt", pairs, "producer")
        options = ProducerOptions(**values.own)
        if "mode" in values.own and "mode" in kwargs and _is_default("mode"):
            kwargs["mode"] = options.mode.replace("_", "-")  # the same as --mode, which wins
        producer = ProducerFlags(options, _connection(values), frozenset(values.own))
        return command(*args, producer=producer, **kwargs)

    return _with_options(
        command,
        with_producer,
        click.option(
            "--producer-opt",
            multiple=True,
            metavar="KEY,VALUE",
            help="An option of the producer, by go-nsq's names, such as dial_timeout,2s; repeatable.",
        ),
    )


_CONNECTION_OPTIONS = (
    click.option("--tls", is_flag=True, help="Encrypt; the flags below that begin with --tls imply it."),
    click.option(
        "--tls-ca-file",
        type=FILE,
        metavar="FILE",
        help="Authorities to trust, PEM.  [default: the system's]",
    ),
    click.option(
        "--tls-certificate-file",
        type=FILE,
        metavar="FILE",
        help="This client's certificate with its chain, PEM.",
    ),
    click.option(
        "--tls-private-key-file",
        type=FILE,
        metavar="FILE",
        help="Its key, PEM, if not in the same file.",
    ),
    click.option("--tls-no-verify", is_flag=True, help="Trust whoever answers: only for tests."),
    click.option("--tls-server-hostname", metavar="NAME", help="The name that nsqd's certificate carries."),
    click.option(
        "--tls-min-version",
        type=tls_version,
        metavar="VERSION",
        help="The oldest version to speak: TLSv1.2 or TLSv1.3.  [default: TLSv1.2]",
    ),
    click.option("--snappy", is_flag=True, help="Ask nsqd for compression with snappy."),
    click.option("--deflate", is_flag=True, help="Ask nsqd for compression with deflate."),
    click.option("--deflate-level", type=Integer(1, 9), default=6, show_default=True, help="Of --deflate."),
    click.option(
        "--auth-secret",
        metavar="SECRET",
        envvar="NSQ_ANYIO_AUTH_SECRET",
        help="For nsqds with an auth server; others can see it here: use the file or the variable.  "
        "[env var: NSQ_ANYIO_AUTH_SECRET]",
    ),
    click.option(
        "--auth-secret-file",
        type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path),
        metavar="FILE",
        help="A file with the secret, read again for each connection.",
    ),
)


def _with_options(command: _Command, wrapper: Callable[..., Any], *options: Callable[[Any], Any]) -> _Command:
    """Add options to what stands in for ``command``; --help shows them in this order."""
    added: Any = functools.wraps(command)(wrapper)
    for option in reversed(options):
        added = option(added)
    return cast("_Command", added)


def _is_default(parameter: str) -> bool:
    source = click.get_current_context().get_parameter_source(parameter)
    return source is click.core.ParameterSource.DEFAULT


def _checked_nsqds(texts: Sequence[str]) -> tuple[str, ...]:
    from ...address import nsqd_addresses

    return tuple(map(str, nsqd_addresses(texts)))


def _check_urls(urls: Sequence[str]) -> None:
    if urls:
        from ...http.url import ServerURL

        for url in urls:
            ServerURL.parse(url)


def _reader(path: Path) -> Callable[[], bytes]:
    return lambda: path.read_bytes().strip()


def _without_server_hostname(tls: bool | ssl.SSLContext | TLSOptions) -> bool | ssl.SSLContext | TLSOptions:
    from ...options import TLSOptions

    return replace(tls, server_hostname=None) if isinstance(tls, TLSOptions) else tls


def _connection(values: OptionValues) -> ConnectionOptions:
    """The flags of the connection, with what ``key,value`` pairs say otherwise."""
    from ...options import ConnectionOptions

    meta = click.get_current_context().meta
    return ConnectionOptions(**{**meta[_CONNECTION], **values.connection}, tls=_tls(meta[_TLS], values.tls))


def _tls(flags: Mapping[str, Any], values: Mapping[str, Any]) -> bool | TLSOptions:
    from ...options import TLSOptions

    given = {
        name: value for name, value in {**flags, **values}.items() if name != "tls" and value is not None
    }
    options = TLSOptions(**given)
    # Whoever names an authority, a certificate or a version means to use it, be it the default.
    implied = flags["minimum_version"] is not None or options != TLSOptions()
    wanted = values.get("tls", flags["tls"] or implied)
    return options if wanted else False
