"""Completion of topics, channels and nsqds in the shell, with names from the servers on the command line.

The environment and the configuration file can name the servers, too. If no server is named, the nsqlookupd at
NSQ's usual address is asked. If no server answers, there are no completions: a shell shows no errors.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import click

if TYPE_CHECKING:
    from ...http import Cluster

USUAL_NSQLOOKUPD = "127.0.0.1:4161"
"""The default HTTP address of an nsqlookupd, also of the one that ``nsq-anyio up`` runs."""

_PATIENCE = 2.0
"""Seconds to wait for all answers."""

_PREFIXES = ("destination-", "output-")
"""The prefixes of flags for a second cluster; these flags are completed by that cluster's servers."""

# The shell runs the line, so a server's text must not end a word. Topics and channels are checked as names.
_ADDRESS = re.compile(r"[a-zA-Z0-9._:\[\]-]+", re.ASCII)

_Question: TypeAlias = "Callable[[Cluster], Awaitable[Iterable[str]]]"


def complete_topic(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the topics that begin with the incomplete word."""

    async def topics(cluster: Cluster) -> Iterable[str]:
        return (await cluster.topics()).value

    return _names(_ask(context, parameter, topics), incomplete)


def complete_channel(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the channels that begin with the incomplete word, of the topics on the command line."""
    from ...names import is_valid_name

    given = [name for each in _parameters(context, "topic", "") for name in _texts(context, each)]

    async def channels(cluster: Cluster) -> Iterable[str]:
        topics = filter(is_valid_name, given)
        return {name for topic in topics for name in (await cluster.channels(topic)).value}

    return _names(_ask(context, parameter, channels), incomplete)


def complete_node(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the names of the nsqds that begin with the incomplete word."""

    async def nodes(cluster: Cluster) -> Iterable[str]:
        return (node.name for node in (await cluster.nodes()).value)

    return _addresses(_ask(context, parameter, nodes), incomplete)


complete_nsqd_http = complete_node
"""An nsqd's name is its HTTP address."""


def complete_nsqd_tcp(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the TCP addresses of the nsqds that begin with the incomplete word."""

    async def nsqds(cluster: Cluster) -> Iterable[str]:
        from ...address import host_port

        nodes = (await cluster.nodes()).value
        return (host_port(node.broadcast_address, node.tcp_port) for node in nodes if node.tcp_port > 0)

    return _addresses(_ask(context, parameter, nsqds), incomplete)


def _names(found: Iterable[str], incomplete: str) -> list[str]:
    from ...names import is_valid_name

    return sorted(name for name in found if name.startswith(incomplete) and is_valid_name(name))


def _addresses(found: Iterable[str], incomplete: str) -> list[str]:
    return sorted(each for each in found if each.startswith(incomplete) and _ADDRESS.fullmatch(each))


def _ask(context: click.Context, parameter: click.Parameter, question: _Question) -> list[str]:
    """Return the answers of the parameter's servers; empty if they do not answer in time."""
    import anyio

    from ...errors import NSQError
    from ...http import Cluster
    from ..http_address import guess_http_address

    prefix = next((each for each in _PREFIXES if any(f"--{each}" in flag for flag in parameter.opts)), "")

    def given(kind: str) -> tuple[str, ...]:
        found = _parameters(context, kind, prefix)
        return tuple(text for each in found for text in _texts(context, each))

    answers: list[str] = []

    async def ask() -> None:
        nsqlookupds, nsqds = given("lookupd-http-address"), given("nsqd-http-address")
        by_tcp = given("nsqd-tcp-address")
        if not nsqlookupds and not nsqds:
            sides = [await guess_http_address(text, timeout=_PATIENCE) for text in by_tcp]
            nsqds = tuple(side for side in sides if side is not None)
            nsqlookupds = () if by_tcp else (USUAL_NSQLOOKUPD,)
        async with Cluster(nsqlookupds, nsqds, timeout=_PATIENCE) as cluster:
            answers.extend(await question(cluster))

    async def ask_in_time() -> None:
        with anyio.move_on_after(_PATIENCE):
            await ask()

    try:
        anyio.run(ask_in_time)
    except NSQError:
        return []
    return answers


def _parameters(context: click.Context, kind: str, prefix: str) -> Iterator[click.Parameter]:
    """Find the flags ``--<prefix><kind>``, and the argument named ``kind``."""
    for parameter in context.command.params:
        is_argument = isinstance(parameter, click.Argument) and parameter.name == kind
        if is_argument or f"--{prefix}{kind}" in parameter.opts:
            yield parameter


def _texts(context: click.Context, parameter: click.Parameter) -> tuple[str, ...]:
    """Return the values of a parameter that may be given once or repeatedly."""
    value: Any = context.params.get(str(parameter.name))
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(map(str, cast("Iterable[object]", value)))
