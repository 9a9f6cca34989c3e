"""The flags that configure connections, consumers and producers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar, cast

import click

from .fields import Flags, flag, grouped, in_order, switch
from .kinds import FILE, Integer, flag_kind
from .options import OptionValues, keys, option_values

if TYPE_CHECKING:
    import ssl

    from ...options import ConnectionOptions, ConsumerOptions, ProducerOptions, PublishMode, TLSOptions


_Options = TypeVar("_Options", bound="ConsumerOptions | ProducerOptions")

DEFAULT_MAX_IN_FLIGHT = 200
_EXAMPLES = {"consumer": "max_attempts,0", "producer": "dial_timeout,2s"}


def _address_map(
    context: click.Context, parameter: click.Parameter, texts: Sequence[str]
) -> dict[str, str] | None:
    """Return the addresses TO by the addresses FROM.

    :raises click.BadParameter: if a text does not consist of two addresses
    """
    if not texts:
        return None
    from ...address import Address
    from ...errors import InvalidAddress

    found: dict[str, str] = {}
    for text in texts:
        name, equals, to = text.partition("=")
        try:
            if not equals:
                raise InvalidAddress("use FROM=TO")
            found[str(Address.parse(name))] = str(Address.parse(to))
        except InvalidAddress as error:
            raise click.BadParameter(f"{text!r} is not valid: {error}", context, parameter) from error
    return found


@flag_kind
def tls_version(text: str) -> object:
    """Return the oldest version of TLS to accept."""
    return keys("consumer")["tls_min_version"].parse(text)


def _opposite(_context: click.Context, _parameter: click.Parameter, given: bool) -> bool:
    return not given


class _ConnectionFlags(Flags):
    """The flags of all connections, named after the keys of ``--consumer-opt`` for the same options."""

    tls: bool = switch("Use TLS; each of the other --tls flags implies it.")
    tls_ca_file: str | None = flag(
        "The certificate authorities to trust, PEM.  [default: the system's]", type=FILE
    )
    tls_certificate_file: str | None = flag("This client's certificate with its chain, PEM.", type=FILE)
    tls_private_key_file: str | None = flag(
        "The certificate's private key, PEM, if it is not in the same file.", type=FILE
    )
    tls_verify: bool = flag(
        "Do not verify nsqd's certificate (tests only).", "--tls-no-verify", is_flag=True, callback=_opposite
    )
    tls_server_hostname: str | None = flag("The host name in nsqd's certificate.", metavar="NAME")
    tls_min_version: str | None = flag(
        "The oldest TLS version to accept: TLSv1.2 or TLSv1.3.  [default: TLSv1.2]",
        type=tls_version,
        metavar="VERSION",
    )
    snappy: bool = switch("Ask nsqd for snappy compression.")
    deflate: bool = switch("Ask nsqd for deflate compression.")
    deflate_level: int = flag("Deflate level.", type=Integer(1, 9), default=6)
    auth_secret: str | None = flag(
        "The secret for nsqds with an auth server. Other users can see it on the command line: use the "
        "file or the variable.  [env var: NSQ_ANYIO_AUTH_SECRET]",
        metavar="SECRET",
        envvar="NSQ_ANYIO_AUTH_SECRET",
    )
    auth_secret_file: Path | None = flag(
        "A file with the auth secret, read again for each connection.",
        type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path),
        metavar="FILE",
    )
    map_address: Mapping[str, str] | None = flag(
        "Reach the nsqd that nsqlookupds name FROM at TO instead, both as host:port; repeatable.",
        multiple=True,
        metavar="FROM=TO",
        callback=_address_map,
    )

    def values(self) -> OptionValues:
        """Return the options that the flags set.

        :raises click.UsageError: if both a secret and a file are given
        """
        from ...options import default_user_agent

        if self.auth_secret is not None and self.auth_secret_file is not None:
            raise click.UsageError("use --auth-secret or --auth-secret-file, not both")
        found = OptionValues()
        for name, key in keys("consumer").items():
            value = vars(self).get(name)
            if value is not None:
                found.set(key, value)
        found.connection["user_agent"] = f"{default_user_agent()} ({click.get_current_context().info_name})"
        found.connection["map_address"] = self.map_address
        if self.auth_secret_file is not None:
            found.connection["auth_secret"] = _reader(self.auth_secret_file)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flags(Generic[_Options]):
    """The options of a consumer or a producer, and of its connections.

    :ivar given: the names of the ``options`` that the user has set
    """

    options: _Options
    connection: ConnectionOptions
    given: frozenset[str]

    def preferring(self, **options: Any) -> Self:
        """Return these flags with other values for the options that the user has not set."""
        preferred = {name: value for name, value in options.items() if name not in self.given}
        return replace(self, options=replace(self.options, **preferred))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerFlags(_Flags["ConsumerOptions"]):
    """The options of a consumer, and of its connections.

    :ivar given: includes ``max_in_flight`` if the user has set it
    """

    max_in_flight: int

    def never_giving_up(self) -> ConsumerFlags:
        """Return these flags without a limit on attempts, unless ``--consumer-opt max_attempts`` was given.

        nsq_to_http and nsq_to_nsq give up after 5 attempts, and so lose messages while a destination is down.
        With a limit, to-file would finish messages that it has never written.
        """
        return self.preferring(max_attempts=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerFlags(_Flags["ProducerOptions"]):
    """The options of a producer, and of its connections."""

    def with_mode(self, mode: str) -> ProducerFlags:
        """Return these flags with a mode, named as for ``--mode``."""
        return replace(self, options=replace(self.options, mode=cast("PublishMode", mode.replace("-", "_"))))


def connection_flags(
    *sides: Literal["consumer", "producer", "connection"], max_in_flight: str = str(DEFAULT_MAX_IN_FLIGHT)
) -> Callable[[Any], Any]:
    """Add the flags of connections, and the flags of consumers, producers or both.

    :param sides: ``consumer`` passes `ConsumerFlags` to the command as ``consumer``, ``producer`` passes
        `ProducerFlags` as ``producer``, and ``connection`` passes `ConnectionOptions` alone
    :param max_in_flight: the default of ``--max-in-flight``, as the help shows it
    """
    fields: dict[str, Any] = {}
    if "consumer" in sides:
        text = f"The most messages in flight, over all nsqds.  [default: {max_in_flight}]"
        fields["max_in_flight"] = flag(text, type=Integer(min=1))
    for side in sides:
        if side in _EXAMPLES:
            text = f"A {side} option, by go-nsq's name, such as {_EXAMPLES[side]}; repeatable."
            fields[f"{side}_opt"] = flag(text, multiple=True, metavar="KEY,VALUE")
    kind = type("ConnectionFlags", (_ConnectionFlags,), fields)
    add = grouped(kind, **{side: _MAKE[side] for side in sides})
    return in_order(add, _with_mode_of_pairs) if "producer" in sides else add


def _connection(flags: Any, pairs: OptionValues | None = None) -> ConnectionOptions:
    """Return the options of a connection; ``key,value`` pairs take precedence over the flags."""
    from ...options import ConnectionOptions, TLSOptions

    values, pairs = flags.values(), pairs or OptionValues()
    given = {name: value for name, value in {**values.tls, **pairs.tls}.items() if name != "tls"}
    tls = TLSOptions(**given)
    # A user who names an authority, a certificate or a version wants TLS, even if the version is the default.
    implied = "minimum_version" in values.tls or tls != TLSOptions()
    is_wanted = pairs.tls.get("tls", values.tls["tls"] or implied)
    return ConnectionOptions(**{**values.connection, **pairs.connection}, tls=tls if is_wanted else False)


def _consumer(flags: Any) -> ConsumerFlags:
    from ...options import ConsumerOptions

    pairs = option_values("consumer", flags.consumer_opt)
    given = {**pairs.own}
    if flags.max_in_flight is not None:
        given["max_in_flight"] = flags.max_in_flight
    connection = _connection(flags, pairs)
    own = {name: value for name, value in given.items() if name != "max_in_flight"}
    return ConsumerFlags(
        options=ConsumerOptions(**own, lookupd_tls=_lookupd_tls(connection.tls)),
        connection=connection,
        max_in_flight=given.get("max_in_flight", DEFAULT_MAX_IN_FLIGHT),
        given=frozenset(given),
    )


def _producer(flags: Any) -> ProducerFlags:
    from ...options import ProducerOptions

    pairs = option_values("producer", flags.producer_opt)
    connection = _connection(flags, pairs)
    options = ProducerOptions(**pairs.own, lookupd_tls=_lookupd_tls(connection.tls))
    return ProducerFlags(options=options, connection=connection, given=frozenset(pairs.own))


_MAKE: Mapping[str, Callable[[Any], object]] = {
    "consumer": _consumer,
    "producer": _producer,
    "connection": _connection,
}


def _with_mode_of_pairs(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let ``--producer-opt mode`` replace the default of ``--mode``, which means the same."""

    @functools.wraps(command)
    def with_mode(**values: Any) -> Any:
        producer: ProducerFlags = values["producer"]
        source = click.get_current_context().get_parameter_source("mode")
        if "mode" in producer.given and "mode" in values and source is click.core.ParameterSource.DEFAULT:
            values["mode"] = producer.options.mode.replace("_", "-")
        return command(**values)

    return with_mode


def _reader(path: Path) -> Callable[[], bytes]:
    return lambda: path.read_bytes().strip()


def _lookupd_tls(tls: bool | ssl.SSLContext | TLSOptions) -> bool | ssl.SSLContext | TLSOptions:
    """Return the TLS options for https nsqlookupds: those for nsqd, without its host name."""
    from ...options import TLSOptions

    return replace(tls, server_hostname=None) if isinstance(tls, TLSOptions) else tls
