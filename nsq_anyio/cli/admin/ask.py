"""Asking a cluster, and telling which of its servers failed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import click

from ..ending import PARTIAL
from ..flags.cluster import ClusterFlags
from ..visible import visible

if TYPE_CHECKING:
    from ...errors import HTTPError
    from ...http import Cluster, ClusterReply

__all__ = ["Call", "ask", "cluster_method", "end_with", "failure_rows"]

T = TypeVar("T")

Call: TypeAlias = "Callable[..., Awaitable[ClusterReply[tuple[str, ...]]]]"
"""Asks a cluster, which is its first argument, or does something to it."""


def cluster_method(name: str) -> Call:
    """The method of `nsq_anyio.http.Cluster` of that name, which is imported when it is used."""

    def call(cluster: Cluster, *arguments: str) -> Awaitable[ClusterReply[tuple[str, ...]]]:
        method: Call = getattr(cluster, name)
        return method(*arguments)

    return call


def ask(cluster: ClusterFlags, question: Callable[[Cluster], Awaitable[T]], backend: str) -> T:
    """The answer to ``question``.

    :raises click.UsageError: for a flag out of range
    :raises click.ClickException: if no server answers
    """
    from ..run import run_to_end

    answers: list[T] = []

    async def main() -> None:
        async with cluster.open() as servers:
            answers.append(await question(servers))

    run_to_end(main, backend)
    return answers[0]


def failure_rows(failures: Sequence[HTTPError]) -> list[dict[str, str]]:
    """The same for JSON."""
    return [{"url": failure.url, "reason": failure.reason} for failure in failures]


def end_with(failures: Sequence[HTTPError], context: click.Context) -> None:
    """Tell on stderr what failed, and end the command with the exit code that says so."""
    for failure in failures:
        click.echo(visible(f"Error: {failure}"), err=True)
    context.exit(PARTIAL if failures else 0)
