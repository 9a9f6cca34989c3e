"""Queries of a cluster, and actions on it: the plan, the confirmation and the report."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import click

from ...terminal_text import visible
from ..ending import PARTIAL
from ..flags.cluster import ClusterFlags
from .actions import Action, Plan

if TYPE_CHECKING:
    from ...errors import HTTPError
    from ...http import Cluster

T = TypeVar("T")


def ask(cluster: ClusterFlags, question: Callable[[Cluster], Awaitable[T]], backend: str) -> T:
    """Ask the cluster ``question``, and return its answer.

    :raises click.UsageError: for a flag out of range
    :raises click.ClickException: if no server answers
    """
    from ..event_loop import run_to_end

    answers: list[T] = []

    async def main() -> None:
        async with cluster.open() as servers:
            answers.append(await question(servers))

    run_to_end(main, backend)
    return answers[0]


def failure_rows(failures: Sequence[HTTPError]) -> list[dict[str, str]]:
    """Return the failures as objects for JSON."""
    return [{"url": failure.url, "reason": failure.reason} for failure in failures]


def end_with(failures: Sequence[HTTPError], context: click.Context) -> None:
    """Report the failures on stderr, and exit with the code for a partial success if there are any."""
    for failure in failures:
        click.echo(visible(f"Error: {failure}"), err=True)
    context.exit(PARTIAL if failures else 0)


@dataclass(frozen=True, slots=True)
class Task:
    """An action with its arguments.

    :ivar names: the arguments of the action's functions, by parameter; the topic comes first
    """

    cluster: ClusterFlags
    action: Action
    names: Mapping[str, str]
    backend: str

    def explain(self, *, as_json: bool) -> None:
        """Print what the action would affect."""
        plan = self._plan()
        if as_json:
            click.echo(
                json.dumps(
                    {
                        "action": self.action.verb,
                        **self.names,
                        "dry_run": True,
                        "nsqlookupds": self._nsqlookupds(),
                        "nsqds": plan.nsqds,
                        "failures": failure_rows(plan.failures),
                    }
                )
            )
        else:
            self._show(plan, err=False)
        end_with(plan.failures, click.get_current_context())

    def confirm(self) -> None:
        """Ask before discarding messages.

        :raises click.Abort: if the answer is no
        """
        if not self.action.is_destructive:
            return
        plan = self._plan()
        # The question goes to stderr: stdout, which may be piped, has only the results.
        self._show(plan, err=True)
        for failure in plan.failures:
            click.echo(visible(f"Warning: {failure}"), err=True)
        click.confirm(f"{self.action.verb.capitalize()} it?", abort=True, err=True)

    def perform(self, *, as_json: bool) -> None:
        """Perform the action, and print its result on each server."""
        names = self.names.values()
        reply = ask(self.cluster, lambda cluster: self.action.call(cluster, *names), self.backend)
        if as_json:
            failures = failure_rows(reply.failures)
            click.echo(
                json.dumps(
                    {"action": self.action.verb, **self.names, "done": reply.value, "failures": failures}
                )
            )
        else:
            for url in reply.value:
                click.echo(visible(f"{url}: {self.action.done} {self._subject}"))
        end_with(reply.failures, click.get_current_context())

    @property
    def _subject(self) -> str:
        return " ".join(f"{kind} {name}" for kind, name in self.names.items())

    def _plan(self) -> Plan:
        make = self.action.plan
        if make is None:
            return Plan(dict.fromkeys(self.cluster.shown_nsqds(), 0))
        names = self.names.values()
        return ask(self.cluster, lambda cluster: make(cluster, *names), self.backend)

    def _nsqlookupds(self) -> tuple[str, ...]:
        return self.cluster.shown_nsqlookupds() if self.action.includes_nsqlookupds else ()

    def _show(self, plan: Plan, *, err: bool) -> None:
        what = f"{self.action.verb} {self._subject}"
        if self.action.is_destructive:
            what += f", with {_messages(plan.messages)}"
        click.echo(f"{what}, on:", err=err)
        for url in self._nsqlookupds():
            click.echo(f"  nsqlookupd {url}", err=err)
        for url, count in plan.nsqds.items():
            suffix = f", {_messages(count)}" if self.action.is_destructive else ""
            click.echo(visible(f"  nsqd {url}{suffix}"), err=err)


def _messages(count: int) -> str:
    return f"{count:,} message{'' if count == 1 else 's'}"
