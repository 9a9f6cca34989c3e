"""``nsq-anyio spool``: what Spark's streaming queries have taken from NSQ and their sinks may not have."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import click

from .command import UtilityCommand, quiet_command_flags
from .pipeline_options import OPTION

if TYPE_CHECKING:
    from rich.table import Table

    from ..producer import Producer
    from ..spark.options import WriteOptions
    from ..spark.spool import SpoolInfo

__all__ = ["delete_spools", "list_spools", "put_back", "spool"]

_SHOWN_OF_UUID = 8
_FRAMING = 4
"""Bytes that an MPUB takes for each body, and once for their count."""

_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables and text.")
_directory = click.argument("directory", metavar="DIR", type=click.Path(file_okay=False))
_chosen = click.argument("uuids", metavar="[UUID]...", nargs=-1)
_all = click.option("--all", "all_of_them", is_flag=True, help="All spools of DIR instead of those named.")
_yes = click.option("--yes", is_flag=True, help="Do it without asking.")


@click.group()
def spool() -> None:
    """List and clear the spools of Spark's streaming queries.

    DIR is the option spoolDir of the queries; a UUID may be cut short. A spool is orphaned when its query
    will never run again with the same checkpoint. A query that runs, or will, needs its own.
    """


@spool.command("list", cls=UtilityCommand, epilog="\b\nExample:\n  nsq-anyio spool list /shared/nsq-spool")
@_directory
@_json_option
@quiet_command_flags
def list_spools(directory: str, as_json: bool, backend: str) -> None:  # noqa: ARG001 - all commands have it
    """Show the spools, the oldest first.

    The rows are those of batches that Spark has not committed; the newest batch of a query that has ended is
    among them until it is started again, even if the sink has it.
    """
    from .pipeline_run import errors_explained

    with errors_explained():
        found = _spools(directory)
    if as_json:
        click.echo(json.dumps([_fields(info) for info in found]))
    elif found:
        from rich.console import Console

        Console().print(_table(found))
    else:
        click.echo(f"no spools in {directory}")


@spool.command(
    "put-back",
    cls=UtilityCommand,
    epilog="\b\nExample:\n  nsq-anyio spool put-back DIR 1f0c --nsqd 127.0.0.1:4150",
)
@_directory
@_chosen
@_all
@click.option("--nsqd", multiple=True, required=True, metavar="HOST:PORT", help="To publish to; repeatable.")
@OPTION
@_yes
@_json_option
@quiet_command_flags
def put_back(
    directory: str,
    uuids: Sequence[str],
    all_of_them: bool,
    nsqd: Sequence[str],
    options: dict[str, str],
    yes: bool,
    as_json: bool,
    backend: str,
) -> None:
    """Publish orphaned rows to their topic again, then delete their spools.

    All channels of the topic get them, and what the sink had already comes again, with another id.
    """
    from .pipeline_run import errors_explained
    from .run import run_to_end

    with errors_explained():
        from ..spark.options import write_options

        access = write_options({"nsqd": ",".join(nsqd), **options})
        chosen = _choose(_spools(directory), directory, uuids, all_of_them=all_of_them)
        _confirm(chosen, "Publish these rows to NSQ again, and delete the spools?", yes=yes)
        run_to_end(partial(_put_back, chosen, access), backend)
    _report("put back", chosen, as_json=as_json)


@spool.command(
    "delete", cls=UtilityCommand, epilog="\b\nExample:\n  nsq-anyio spool delete /shared/nsq-spool 1f0c"
)
@_directory
@_chosen
@_all
@_yes
@_json_option
@quiet_command_flags
def delete_spools(
    directory: str,
    uuids: Sequence[str],
    all_of_them: bool,
    yes: bool,
    as_json: bool,
    backend: str,  # noqa: ARG001 - all commands have it
) -> None:
    """Delete spools with their rows, which are in NSQ no more."""
    from .pipeline_run import errors_explained

    with errors_explained():
        from ..spark.spool import delete

        chosen = _choose(_spools(directory), directory, uuids, all_of_them=all_of_them)
        _confirm(chosen, "Delete these rows for good?", yes=yes)
        for info in chosen:
            delete(info)
    _report("deleted", chosen, as_json=as_json)


def _spools(directory: str) -> list[SpoolInfo]:
    from ..spark.spool import spools

    return spools(directory)


def _choose(
    found: Sequence[SpoolInfo], directory: str, uuids: Sequence[str], *, all_of_them: bool
) -> list[SpoolInfo]:
    """Return the spools that the beginnings of UUIDs name, each once.

    :raises click.UsageError: if one names none or several, or it is not said which
    """
    if bool(uuids) == all_of_them:
        raise click.UsageError("name the spools, or use --all for all of them")
    if all_of_them:
        return list(found)
    chosen: dict[str, SpoolInfo] = {}
    for beginning in uuids:
        named = [info for info in found if info.uuid.startswith(beginning)]
        if len(named) != 1:
            several = f"{len(named)} spools" if named else "no spool"
            raise click.UsageError(
                f"{beginning!r} names {several} of {directory}: see `nsq-anyio spool list`"
            )
        chosen[named[0].uuid] = named[0]
    return list(chosen.values())


def _confirm(chosen: Sequence[SpoolInfo], question: str, *, yes: bool) -> None:
    if not yes and chosen:
        from rich.console import Console

        Console(stderr=True).print(_table(chosen))
        click.confirm(question, abort=True, err=True)


async def _put_back(chosen: Sequence[SpoolInfo], access: WriteOptions) -> None:
    import anyio.to_thread

    from ..producer import produce
    from ..spark.spool import delete

    async with produce(
        access.nsqds, options=access.producer_options(), connection=access.connection_options()
    ) as producer:
        for info in chosen:
            await _publish(producer, info, access)
            # Only now; what fails before leaves the spool as it was.
            await anyio.to_thread.run_sync(delete, info)


async def _publish(producer: Producer, info: SpoolInfo, access: WriteOptions) -> None:
    import anyio.to_thread

    batches = _batches(info, access)
    while batch := await anyio.to_thread.run_sync(next, batches, None):
        await producer.publish_many(info.topic, batch)


def _batches(info: SpoolInfo, access: WriteOptions) -> Iterator[list[bytes]]:
    """Yield the bodies, as many at a time as one MPUB may take."""
    from ..spark.spool import read_messages

    for rows in read_messages(info):
        batch: list[bytes] = []
        size = _FRAMING
        for body in cast("list[bytes]", rows.column("body").to_pylist()):
            added = len(body) + _FRAMING
            if batch and (len(batch) == access.batch_rows or size + added > access.batch_bytes):
                yield batch
                batch, size = [], _FRAMING
            batch.append(body)
            size += added
        yield batch


def _report(done: str, chosen: Sequence[SpoolInfo], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps([_fields(info) for info in chosen]))
    for info in () if as_json else chosen:
        click.echo(f"{done} {info.rows:,} rows of {info.topic}/{info.channel}, spool {info.uuid}")


def _fields(info: SpoolInfo) -> dict[str, Any]:
    return {
        "uuid": info.uuid,
        "topic": info.topic,
        "channel": info.channel,
        "created": info.created.isoformat(),
        "epochs": info.epochs,
        "rows": info.rows,
        "bytes": info.bytes,
        "last_written": info.last_written.isoformat() if info.last_written else None,
    }


def _table(infos: Sequence[SpoolInfo]) -> Table:
    from rich.table import Table

    table = Table("spool", "topic/channel", "last written (UTC)")
    for name in ("rows", "bytes"):
        table.add_column(name, justify="right")
    for info in infos:
        last_written = f"{info.last_written:%Y-%m-%d %H:%M:%S}" if info.last_written else "never"
        table.add_row(
            info.uuid[:_SHOWN_OF_UUID],
            f"{info.topic}/{info.channel}",
            last_written,
            f"{info.rows:,}",
            f"{info.bytes:,}",
        )
    return table
