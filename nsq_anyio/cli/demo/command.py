"""The click command of ``nsq-anyio demo``, with its flags and the tables at its end."""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import click

from ...terminal_text import visible
from ..command import UtilityCommand, quiet_command_flags
from ..flags.addresses import lookupd_http_flag, nsqd_tcp_flag
from ..flags.fields import Flags, flag, shared, switch, takes
from ..flags.kinds import Integer
from ..flags.names import complete_topic

if TYPE_CHECKING:
    from rich.table import Table

    from .run import Outcome
    from .spark import Archived


class DemoFlags(Flags):
    """The flags of ``nsq-anyio demo``."""

    messages: int = flag("The number of messages to publish.", type=Integer(min=1), default=100_000)
    as_json: bool = switch("Print one line of JSON instead of a table.", "--json")
    nsqds: Sequence[str] = nsqd_tcp_flag("A real nsqd to use; repeatable.")
    nsqlookupds: Sequence[str] = lookupd_http_flag("A real nsqlookupd to use; repeatable.")
    spark: bool = switch("Archive the messages with Spark into Parquet files; needs Java.")
    topic: str = flag("The topic to publish to.", shell_complete=complete_topic, default="nsq-anyio-demo")
    backend: str = shared(quiet_command_flags)


@click.command(
    cls=UtilityCommand,
    epilog="""\b
Example:
  nsq-anyio demo --messages 20000
  nsq-anyio demo --backend trio --json
  nsq-anyio demo --lookupd-http-address 127.0.0.1:4161""",
)
@takes(DemoFlags)
def demo(flags: DemoFlags) -> None:
    """Publish messages, consume them, and show the throughput.

    Without addresses, the demo starts two nsqds and an nsqlookupd in this process, and finds the nsqds
    through nsqlookupd. On real servers it leaves its topic behind.
    """
    if flags.spark:
        _demo_spark(flags)
        return
    from ..display import print_table
    from ..event_loop import run_to_end
    from .run import Outcome

    outcome = Outcome(flags.messages)
    run_to_end(partial(_demo, outcome, flags), flags.backend)
    if flags.as_json:
        click.echo(json.dumps(_summary(outcome)))
    else:
        print_table(_table(outcome))


def _demo_spark(flags: DemoFlags) -> None:
    from ..display import print_table
    from ..event_loop import run_to_end
    from ..pipeline.run import errors_explained, show_progress
    from .run import demo_cluster
    from .spark import run_spark_demo

    archived: list[Archived] = []

    async def run() -> None:
        async with demo_cluster(flags.nsqds, flags.nsqlookupds) as cluster:
            with show_progress(shown=not flags.as_json) as progress:
                archived.append(await run_spark_demo(cluster, flags.topic, flags.messages, progress))

    with errors_explained():
        run_to_end(run, flags.backend)
    for outcome in archived:
        if flags.as_json:
            click.echo(json.dumps(_spark_summary(outcome, flags.messages)))
        else:
            print_table(_spark_table(outcome))
            click.echo(f"One row: {outcome.example}")


async def _demo(outcome: Outcome, flags: DemoFlags) -> None:
    from ...names import check_topic
    from .run import demo_cluster, run_demo

    check_topic(flags.topic)
    async with demo_cluster(flags.nsqds, flags.nsqlookupds) as cluster:
        with _display(outcome, shown=not flags.as_json) as changed:
            await run_demo(cluster, flags.topic, outcome, changed)


@contextmanager
def _display(outcome: Outcome, *, shown: bool) -> Generator[Callable[[], None]]:
    """Show two progress bars; yield the function that updates them."""
    from rich.progress import MofNCompleteColumn, TextColumn, TimeElapsedColumn

    from ..display import progress_bar, progress_display

    columns = (
        TextColumn("{task.description}"),
        progress_bar(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with progress_display(*columns, shown=shown) as progress:
        published = progress.add_task("published", total=outcome.messages)
        finished = progress.add_task("finished", total=outcome.messages)

        def changed() -> None:
            progress.update(published, completed=outcome.published.total())
            progress.update(finished, completed=len(outcome.seen))

        yield changed


def _summary(outcome: Outcome) -> dict[str, float]:
    return {
        "published": outcome.published.total(),
        "finished": outcome.finished.total(),
        "unique": len(outcome.seen),
        "seconds": round(outcome.seconds, 3),
    }


def _table(outcome: Outcome) -> Table:
    from rich.text import Text

    from ..display import new_table

    table = new_table("nsqd", numbers=["published", "finished", "redelivered", "messages/s"])

    def add(name: str, published: int, finished: int, redelivered: int) -> None:
        numbers = (published, finished, redelivered, finished / outcome.seconds)
        table.add_row(Text(visible(name)), *(f"{number:,.0f}" for number in numbers))

    counters = (outcome.published, outcome.finished, outcome.redelivered)
    for nsqd in sorted({*outcome.published, *outcome.finished}):
        add(nsqd, *(counter[nsqd] for counter in counters))
    table.add_section()
    add("all", *(counter.total() for counter in counters))
    return table


def _spark_summary(outcome: Archived, messages: int) -> dict[str, float]:
    return {
        "published": messages,
        "archived": sum(held.rows for held in outcome.held),
        "unique": sum(held.unique for held in outcome.held),
        "files": outcome.files,
        "bytes": outcome.bytes,
        "seconds": round(outcome.summary.seconds, 3),
    }


def _spark_table(outcome: Archived) -> Table:
    from ..display import new_table

    rows = sum(held.rows for held in outcome.held)
    table = new_table(
        "nsqd",
        numbers=["rows", "unique ids"],
        title=f"{outcome.files} Parquet files of {outcome.bytes:,} bytes hold",
        caption=f"archived at {outcome.summary.rows_per_second:,.0f} rows/s, Spark's start-up included",
    )
    for held in outcome.held:
        table.add_row(held.nsqd, f"{held.rows:,}", f"{held.unique:,}")
    table.add_section()
    table.add_row("all", f"{rows:,}", f"{sum(held.unique for held in outcome.held):,}")
    return table
