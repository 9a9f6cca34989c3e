"""The flags that configure connections, consumers and producers."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, Self, TypeAlias, TypeVar, cast

import click

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

    :raises click.BadParameter: if one does not consist of two addresses
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


map_address_option: Callable[[Any], Any] = click.option(
    "--map-address",
    multiple=True,
    metavar="FROM=TO",
    callback=_address_map,
    help="Reach the nsqd that nsqlookupds name FROM at TO instead, both as host:port; repeatable.",
)
"""The flag. Its value is a mapping for `ConnectionOptions.map_address`."""


@flag_kind
def tls_version(text: str) -> object:
    """Return the oldest version of TLS to accept."""
    return keys("consumer")["tls_min_version"].parse(text)


def max_in_flight_option(default: str) -> Callable[[Any], Any]:
    """Return a decorator that adds ``--max-in-flight``, whose value is None if it is not given.

    :param default: the default that the help shows
    """
    return click.option(
        "--max-in-flight",
        type=Integer(min=1),
        help=f"The most messages in flight, over all nsqds.  [default: {default}]",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flags(Generic[_Options]):
    """How to consume or to publish.

    :ivar given: the names of the ``options`` that the user has set
    """

    options: _Options
    connection: ConnectionOptions
    given: frozenset[str]

    def preferring(self, **options: Any) -> Self:
        """Return these flags with other defaults: values for options that the user has not set."""
        preferred = {name: value for name, value in options.items() if name not in self.given}
        return replace(self, options=replace(self.options, **preferred))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerFlags(_Flags["ConsumerOptions"]):
    """How to consume.

    :ivar given: includes ``max_in_flight`` if the user has set it
    """

    max_in_flight: int

    def never_giving_up(self) -> ConsumerFlags:
        """Return these flags without a limit on attempts, unless ``--consumer-opt max_attempts`` was given.

        With the 5 attempts of nsq_to_http and nsq_to_nsq, messages are lost when a destination is down for
        longer. In an archive, a limit would finish messages that were never written.
        """
        return self.preferring(max_attempts=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerFlags(_Flags["ProducerOptions"]):
    """How to publish."""

    def with_mode(self, mode: str) -> ProducerFlags:
        """Return these flags with a mode, as ``--mode`` names it."""
        return replace(self, options=replace(self.options, mode=cast("PublishMode", mode.replace("-", "_"))))


def connection_flags(
    *sides: Literal["consumer", "producer", "connection"], max_in_flight: str = str(DEFAULT_MAX_IN_FLIGHT)
) -> Callable[[_Command], _Command]:
    """Add the flags of connections, and those of consumers, producers or both.

    :param sides: ``consumer`` passes `ConsumerFlags` to the command as ``consumer``, ``producer`` passes
        `ProducerFlags` as ``producer``, and ``connection`` passes `ConnectionOptions` alone
    :param max_in_flight: the default of ``--max-in-flight``, as the help shows it
    """

    def add(command: _Command) -> _Command:
        @functools.wraps(command)
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
            map_address: Mapping[str, str] | None,
            **kwargs: Any,
        ) -> Any:
            if auth_secret is not None and auth_secret_file is not None:
                raise click.UsageError("use --auth-secret or --auth-secret-file, not both")
            from ...options import default_user_agent

            flags = _ConnectionFlags(
                {
                    "user_agent": f"{default_user_agent()} ({click.get_current_context().info_name})",
                    "snappy": snappy,
                    "deflate": deflate,
                    "deflate_level": deflate_level,
                    "auth_secret": auth_secret if auth_secret_file is None else _reader(auth_secret_file),
                    "map_address": map_address,
                },
                {
                    "tls": tls,
                    "ca_file": tls_ca_file,
                    "certificate_file": tls_certificate_file,
                    "private_key_file": tls_private_key_file,
                    "server_hostname": tls_server_hostname,
                    "minimum_version": tls_min_version,
                    "verify": not tls_no_verify,
                },
            )
            for side in sides:
                kwargs = _SIDES[side].read(flags, **kwargs)
            return command(*args, **kwargs)

        of_sides = [flag for side in sides for flag in _SIDES[side].flags]
        if "consumer" in sides:
            of_sides = [max_in_flight_option(max_in_flight), *of_sides]
        return cast("_Command", in_order(*_CONNECTION_OPTIONS, *of_sides)(with_connection))

    return add


class _ConnectionFlags(NamedTuple):
    """The values of the connection flags, by the names of the options.

    :ivar connection: values of `ConnectionOptions`
    :ivar tls: values of `TLSOptions`, and ``tls``, which says whether to use TLS at all
    """

    connection: Mapping[str, Any]
    tls: Mapping[str, Any]

    def options(self, values: OptionValues) -> ConnectionOptions:
        """Return the options that these flags set; the values of ``key,value`` pairs take precedence."""
        from ...options import ConnectionOptions

        tls = _tls(self.tls, values.tls)
        return ConnectionOptions(**{**self.connection, **values.connection}, tls=tls)

    def alone(self, **others: Any) -> dict[str, Any]:
        """Add the options to the values of the other flags."""
        return {**others, "connection": self.options(OptionValues())}


def _consumer(
    flags: _ConnectionFlags,
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
    connection = flags.options(values)
    own["lookupd_tls"] = _trusted_nsqlookupds(connection.tls)
    consumer = ConsumerFlags(
        options=ConsumerOptions(**own),
        connection=connection,
        max_in_flight=max_in_flight or in_flight,
        given=frozenset(values.own if max_in_flight is None else {*values.own, "max_in_flight"}),
    )
    return {**others, "consumer": consumer}


def _producer(flags: _ConnectionFlags, *, producer_opt: Sequence[str], **others: Any) -> dict[str, Any]:
    from ...options import ProducerOptions

    pairs = pairs_in_effect("producer_opt", producer_opt, "producer")
    values = option_values("--producer-opt", pairs, "producer")
    connection = flags.options(values)
    options = ProducerOptions(**values.own, lookupd_tls=_trusted_nsqlookupds(connection.tls))
    source = click.get_current_context().get_parameter_source("mode")
    if "mode" in values.own and "mode" in others and source is click.core.ParameterSource.DEFAULT:
        others["mode"] = options.mode.replace("_", "-")  # it means the same as --mode, which takes precedence
    producer = ProducerFlags(options=options, connection=connection, given=frozenset(values.own))
    return {**others, "producer": producer}


_CONNECTION_OPTIONS = (
    click.option("--tls", is_flag=True, help="Use TLS; each of the other --tls flags implies it."),
    click.option(
        "--tls-ca-file",
        type=FILE,
        metavar="FILE",
        help="The certificate authorities to trust, PEM.  [default: the system's]",
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
        help="The certificate's private key, PEM, if it is not in the same file.",
    ),
    click.option("--tls-no-verify", is_flag=True, help="Do not verify nsqd's certificate (tests only)."),
    click.option("--tls-server-hostname", metavar="NAME", help="The host name in nsqd's certificate."),
    click.option(
        "--tls-min-version",
        type=tls_version,
        metavar="VERSION",
        help="The oldest TLS version to accept: TLSv1.2 or TLSv1.3.  [default: TLSv1.2]",
    ),
    click.option("--snappy", is_flag=True, help="Ask nsqd for snappy compression."),
    click.option("--deflate", is_flag=True, help="Ask nsqd for deflate compression."),
    click.option("--deflate-level", type=Integer(1, 9), default=6, show_default=True, help="Deflate level."),
    click.option(
        "--auth-secret",
        metavar="SECRET",
        envvar="NSQ_ANYIO_AUTH_SECRET",
        help="The secret for nsqds with an auth server. Other users can see it on the command line: use the "
        "file or the variable.  [env var: NSQ_ANYIO_AUTH_SECRET]",
    ),
    click.option(
        "--auth-secret-file",
        type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path),
        metavar="FILE",
        help="A file with the auth secret, read again for each connection.",
    ),
    map_address_option,
)


class _Side(NamedTuple):
    """One use of connections: to consume or to publish.

    :ivar read: replaces the values of these flags, among those of all flags, by the object made of them
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
    "connection": _Side((), _ConnectionFlags.alone),
}


def _reader(path: Path) -> Callable[[], bytes]:
    return lambda: path.read_bytes().strip()


def _trusted_nsqlookupds(tls: bool | ssl.SSLContext | TLSOptions) -> bool | ssl.SSLContext | TLSOptions:
    """Return the TLS options for https nsqlookupds: they trust what the user trusts for nsqd."""
    from ...options import TLSOptions

    return replace(tls, server_hostname=None) if isinstance(tls, TLSOptions) else tls


def _tls(flags: Mapping[str, Any], values: Mapping[str, Any]) -> bool | TLSOptions:
    from ...options import TLSOptions

    given = {
        name: value for name, value in {**flags, **values}.items() if name != "tls" and value is not None
    }
    options = TLSOptions(**given)
    # A user who names an authority, a certificate or a version wants TLS, even if the version is the default.
    implied = flags["minimum_version"] is not None or options != TLSOptions()
    wanted = values.get("tls", flags["tls"] or implied)
    return options if wanted else False
