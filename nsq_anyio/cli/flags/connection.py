"""The flags that configure connections, consumers and producers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Self, TypeAlias, TypeVar, cast

import click

from .fields import Flags, flag, grouped, switch
from .kinds import FILE, Integer, flag_kind, in_order
from .options import OptionValues, keys, option_values, pairs_in_effect

if TYPE_CHECKING:
    import ssl

    from ...options import ConnectionOptions, ConsumerOptions, ProducerOptions, PublishMode, TLSOptions


_Command = TypeVar("_Command", bound=Callable[..., Any])
_Options = TypeVar("_Options", bound="ConsumerOptions | ProducerOptions")
_Flag: TypeAlias = Callable[[Any], Any]

DEFAULT_MAX_IN_FLIGHT = 200


def _address_map(
    context: click.Context, parameter: click.Parameter, texts: Sequence[str]
) -> dict[str, str] | None:
    """Parse each ``FROM=TO``.

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
        A limit on the attempts of an archive would finish messages that were never written.
        """
        return self.preferring(max_attempts=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerFlags(_Flags["ProducerOptions"]):
    """The options of a producer, and of its connections."""

    def with_mode(self, mode: str) -> ProducerFlags:
        """Return these flags with a mode, given by its name for ``--mode``."""
        return replace(self, options=replace(self.options, mode=cast("PublishMode", mode.replace("-", "_"))))


def connection_flags(
    *sides: Literal["consumer", "producer", "connection"], max_in_flight: str = str(DEFAULT_MAX_IN_FLIGHT)
) -> Callable[[_Command], _Command]:
    """Add the flags of connections, and the flags of consumers, producers or both.

    :param sides: ``consumer`` passes `ConsumerFlags` to the command as ``consumer``, ``producer`` passes
        `ProducerFlags` as ``producer``, and ``connection`` passes `ConnectionOptions` alone
    :param max_in_flight: the default of ``--max-in-flight``, as the help shows it
    """

    def add(command: _Command) -> _Command:
        @functools.wraps(command)
        def with_connection(**values: Any) -> Any:
            flags: OptionValues = values.pop("flags")
            for side in sides:
                values = _SIDES[side].read(flags, **values)
            return command(**values)

        added = [flag for side in sides for flag in _SIDES[side].flags]
        if "consumer" in sides:
            limit = click.option(
                "--max-in-flight",
                type=Integer(min=1),
                help=f"The most messages in flight, over all nsqds.  [default: {max_in_flight}]",
            )
            added = [limit, *added]
        shared = grouped(_ConnectionFlags, flags=_ConnectionFlags.values)
        return cast("_Command", in_order(shared, *added)(with_connection))

    return add


def _connection(flags: OptionValues, pairs: OptionValues) -> ConnectionOptions:
    """Return the options of a connection; ``key,value`` pairs take precedence over the flags."""
    from ...options import ConnectionOptions, TLSOptions

    given = {name: value for name, value in {**flags.tls, **pairs.tls}.items() if name != "tls"}
    tls = TLSOptions(**given)
    # A user who names an authority, a certificate or a version wants TLS, even if the version is the default.
    implied = "minimum_version" in flags.tls or tls != TLSOptions()
    is_wanted = pairs.tls.get("tls", flags.tls["tls"] or implied)
    return ConnectionOptions(**{**flags.connection, **pairs.connection}, tls=tls if is_wanted else False)


def _alone(flags: OptionValues, **others: Any) -> dict[str, Any]:
    return {**others, "connection": _connection(flags, OptionValues())}


def _consumer(
    flags: OptionValues,
    *,
    max_in_flight: int | None,
    consumer_opt: Sequence[str],
    **others: Any,
) -> dict[str, Any]:
    from ...options import ConsumerOptions

    pairs = pairs_in_effect("consumer_opt", consumer_opt, "consumer")
    values = option_values("--consumer-opt", pairs, "consumer")
    own = {name: value for name, value in values.own.items() if name != "max_in_flight"}
    in_flight = values.own.get("max_in_flight", DEFAULT_MAX_IN_FLIGHT)
    connection = _connection(flags, values)
    own["lookupd_tls"] = _trusted_nsqlookupds(connection.tls)
    consumer = ConsumerFlags(
        options=ConsumerOptions(**own),
        connection=connection,
        max_in_flight=max_in_flight or in_flight,
        given=frozenset(values.own if max_in_flight is None else {*values.own, "max_in_flight"}),
    )
    return {**others, "consumer": consumer}


def _producer(flags: OptionValues, *, producer_opt: Sequence[str], **others: Any) -> dict[str, Any]:
    from ...options import ProducerOptions

    pairs = pairs_in_effect("producer_opt", producer_opt, "producer")
    values = option_values("--producer-opt", pairs, "producer")
    connection = _connection(flags, values)
    options = ProducerOptions(**values.own, lookupd_tls=_trusted_nsqlookupds(connection.tls))
    source = click.get_current_context().get_parameter_source("mode")
    if "mode" in values.own and "mode" in others and source is click.core.ParameterSource.DEFAULT:
        others["mode"] = options.mode.replace("_", "-")  # it means the same as --mode, which takes precedence
    producer = ProducerFlags(options=options, connection=connection, given=frozenset(values.own))
    return {**others, "producer": producer}


class _Side(NamedTuple):
    """One use of connections: to consume or to publish.

    :ivar read: given the values of all flags, replaces the values of ``flags`` by the object made of them
    """

    flags: Sequence[_Flag]
    read: Callable[..., dict[str, Any]]


_SIDES = {
    "consumer": _Side(
        (
            click.option(
                "--consumer-opt",
                multiple=True,
                metavar="KEY,VALUE",
                help="A consumer option, by go-nsq's name, such as max_attempts,0; repeatable.",
            ),
        ),
        _consumer,
    ),
    "producer": _Side(
        (
            click.option(
                "--producer-opt",
                multiple=True,
                metavar="KEY,VALUE",
                help="A producer option, by go-nsq's name, such as dial_timeout,2s; repeatable.",
            ),
        ),
        _producer,
    ),
    "connection": _Side((), _alone),
}


def _reader(path: Path) -> Callable[[], bytes]:
    return lambda: path.read_bytes().strip()


def _trusted_nsqlookupds(tls: bool | ssl.SSLContext | TLSOptions) -> bool | ssl.SSLContext | TLSOptions:
    """Return the TLS options for https nsqlookupds: the same as for nsqd, but without its host name."""
    from ...options import TLSOptions

    return replace(tls, server_hostname=None) if isinstance(tls, TLSOptions) else tls
