"""The click commands of ``nsq-anyio spool``, with their flags, tables, lines and JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import click

from ..command import UtilityCommand, quiet_command_flags
from ..flags.addresses import nsqd_tcp_flag
from ..flags.fields import Flags, argument, shared, switch, takes
from ..in_thread import in_thread
from ..lazy_group import SentenceGroup
from ..pipeline.command import SPARK_OPTIONS

if TYPE_CHECKING:
    from rich.table import Table

    from ...producer.in_parts import InParts
    from ...spark.chunks import Chunk, Record
    from ...spark.options import WriteOptions
    from ...spark.spool_admin import SpoolInfo
    from ...spark.spool_errors import SpoolError
    from ...storage.place import Place


_AS_JSON = switch("Print JSON instead of tables and text.", "--json")
_BACKEND = shared(quiet_command_flags)


class _ListFlags(Flags):
    directory: str = argument(metavar="DIR")
    check: bool = switch("Read every chunk and verify its checksum.")
    as_json: bool = _AS_JSON
    backend: str = _BACKEND


class _ChosenFlags(Flags):
    directory: str = argument(metavar="DIR")
    uuids: Sequence[str] = argument(metavar="[UUID]...", nargs=-1)
    all_of_them: bool = switch("All spools in DIR, instead of naming them.", "--all")
    yes: bool = switch("Do it without asking.")
    force: bool = switch("Include spools in use: their queries fail, and need a new checkpoint.")
    as_json: bool = _AS_JSON


class _PutBackFlags(_ChosenFlags):
    nsqd: Sequence[str] = nsqd_tcp_flag("An nsqd to publish to; repeatable.", required=True)
    options: dict[str, str] = SPARK_OPTIONS
    backend: str = _BACKEND


class _DeleteFlags(_ChosenFlags):
    backend: str = _BACKEND


@click.group(cls=SentenceGroup)
def spool() -> None:
    """List and clear the spools of Spark's streaming queries.

    DIR is the spoolDir option of the queries, a path or a URL; a UUID may be abbreviated to its beginning. A
    spool is orphaned when its query will never run again with the same checkpoint. A query that runs, or will
    run again, needs its spool. Spools in use are left alone.
    """


@spool.command("list", cls=UtilityCommand, epilog="\b\nExample:\n  nsq-anyio spool list /shared/nsq-spool")
@takes(_ListFlags)
def list_spools(flags: _ListFlags) -> None:
    """Show the spools, oldest first.

    The rows are those of batches that Spark has not committed. They include the newest batch of a query that
    has ended, even if the sink has that batch, until the query is started again. Without --check, names and
    sizes show what is there and what is missing, and a spool that lacks nothing is "unchecked"; with it,
    such a spool is "sound". Only rows that are there, and with --check sound, are counted.
    """
    from ..pipeline.run import errors_explained

    with errors_explained():
        from ...spark.spool_admin import find_spools

        found = in_thread(partial(find_spools, flags.directory, check=flags.check))
    if flags.as_json:
        click.echo(json.dumps([fields(info) for info in found]))
    elif found:
        from ..display import print_table

        print_table(table(found))
        for info in found:
            report_damage(info)
    else:
        click.echo(f"no spools in {flags.directory}")


@spool.command(
    "put-back",
    cls=UtilityCommand,
    epilog="\b\nExample:\n  nsq-anyio spool put-back DIR 1f0c --nsqd-tcp-address 127.0.0.1:4150",
)
@takes(_PutBackFlags)
def put_back(flags: _PutBackFlags) -> None:
    """Publish orphaned rows to their topic again, then delete their spools.

    All channels of the topic receive the rows. Rows that the sink already has are delivered again, with new
    ids. The sound rows of a damaged spool are published and deleted; the rest stays. With --force, rows that
    a running query has passed to its sink may be published again, and the query fails once it misses its
    rows.
    """
    from ..event_loop import run_to_end
    from ..pipeline.run import errors_explained

    with errors_explained():
        from ...spark.options import write_options

        options = write_options({"nsqd": ",".join(flags.nsqd), **flags.options})
        chosen = _choose(flags)
        _confirm(chosen, "Publish these rows to NSQ again, and delete the spools?", flags)
        done: list[tuple[SpoolInfo, int, list[Place]]] = []
        try:
            run_to_end(partial(_put_back, chosen, options, done, partial(_may_clear, flags)), flags.backend)
        finally:
            report("put back", [(info, rows) for info, rows, _ in done], as_json=flags.as_json)
    for info, _, left in done:
        report_damage(info)
        for path in left:
            click.echo(f"{path} stays", err=True)
    if any(left for _, _, left in done):
        raise click.ClickException(
            "some rows could not be put back: inspect the spools that are left; `nsq-anyio spool delete` "
            "deletes them"
        )


@spool.command(
    "delete", cls=UtilityCommand, epilog="\b\nExample:\n  nsq-anyio spool delete /shared/nsq-spool 1f0c"
)
@takes(_DeleteFlags)
def delete_spools(flags: _DeleteFlags) -> None:
    """Delete spools with their rows, which are no longer in NSQ.

    With --force, the rows of a running query that its sink does not have yet are lost.
    """
    from ..pipeline.run import errors_explained

    with errors_explained():
        from ...spark.spool_admin import delete, look_again

        chosen = _choose(flags)
        _confirm(chosen, "Delete these rows for good?", flags)
        done: list[SpoolInfo] = []
        try:
            for info in chosen:
                # It may have changed while the user decided, or while other spools were deleted.
                now = in_thread(partial(look_again, info))
                if _may_clear(flags, info, now):
                    in_thread(partial(delete, info))
                    done.append(info)
        finally:
            report("deleted", [(info, info.rows) for info in done], as_json=flags.as_json)


def _choose(flags: _ChosenFlags) -> list[SpoolInfo]:
    """Return the spools that the command line names, each once.

    :raises click.UsageError: unless either UUIDs or ``--all`` are given, and each UUID matches one spool
    :raises click.ClickException: if a named spool is in use
    """
    from ...spark.lease import time_of
    from ...spark.spool_admin import find_spools
    from ...storage.place import place_of

    if bool(flags.uuids) == flags.all_of_them:
        raise click.UsageError("name the spools, or use --all for all of them")
    place = place_of(flags.directory)
    found = in_thread(lambda: find_spools(place, time_of(place)))
    chosen: dict[str, SpoolInfo] = {}
    for beginning in flags.uuids:
        named = [info for info in found if info.uuid.startswith(beginning)]
        if len(named) != 1:
            several = f"{len(named)} spools" if named else "no spool"
            raise click.UsageError(
                f"{beginning!r} names {several} of {flags.directory}: see `nsq-anyio spool list`"
            )
        chosen[named[0].uuid] = named[0]
    if flags.all_of_them:
        chosen = {info.uuid: info for info in found}
    return [info for info in chosen.values() if _may_clear(flags, info, info)]


def _may_clear(flags: _ChosenFlags, shown: SpoolInfo, now: SpoolInfo | None) -> bool:
    """Return whether to clear a spool: with ``--force``, or if it is unused and unchanged since it was shown.

    :raises click.ClickException: if the spool must stay, and the command line names it
    """
    if flags.force or now is None:  # None: the spool is gone, which the next step reports
        return True
    if now.user:
        text = f"spool {now.uuid} is in use by {now.user}"
        remedy = (
            "stop it first, or wait for a minute if it was killed; --force includes the spool, and its query "
            "fails"
        )
    elif (now.epochs, now.bytes, now.last_written) != (shown.epochs, shown.bytes, shown.last_written):
        text = f"spool {now.uuid} has changed since it was shown, and has {now.rows:,} rows now"
        remedy = "if its query has ended for good, use this command again"
    else:
        return True
    if not flags.all_of_them:
        raise click.ClickException(f"{text}: {remedy}")
    click.echo(f"{text}: left alone", err=True)
    return False


def _confirm(chosen: Sequence[SpoolInfo], question: str, flags: _ChosenFlags) -> None:
    if not flags.yes and chosen:
        from ..display import print_table

        print_table(table(chosen), err=True)
        click.confirm(question, abort=True, err=True)


async def _put_back(
    chosen: Sequence[SpoolInfo],
    options: WriteOptions,
    done: list[tuple[SpoolInfo, int, list[Place]]],
    may_clear: Callable[[SpoolInfo, SpoolInfo | None], bool],
) -> None:
    """Publish one spool after another; add each to ``done``, with the number of rows and the files left."""
    import anyio.to_thread

    from ...producer import produce
    from ...producer.in_parts import InParts, MpubLimit
    from ...spark.spool_admin import clear, look_again, read_chunks
    from ...spark.spool_errors import SpoolError

    async with produce(
        options.nsqds, options=options.producer_options(), connection=options.connection_options()
    ) as producer:
        parts = InParts(producer, MpubLimit(options.max_body_size))
        for info in chosen:
            if not may_clear(info, await anyio.to_thread.run_sync(look_again, info)):
                continue
            chunks = read_chunks(info)
            published: list[tuple[Place, Record]] = []
            damage = {str(error): error for error in info.damage}
            while found := await anyio.to_thread.run_sync(next, chunks, None):
                if isinstance(found, SpoolError):
                    damage[str(found)] = found
                    continue
                await _publish(parts, found, info.topic, options)
                published.append((found.path, found.record))
            # Only after publishing, so that an earlier failure leaves the spool unchanged.
            left = await anyio.to_thread.run_sync(clear, info, published)
            read = replace(info, damage=tuple(damage.values()), is_read=True)
            done.append((read, sum(record.rows for _, record in published), left))


async def _publish(parts: InParts, chunk: Chunk, topic: str | None, options: WriteOptions) -> None:
    from ...producer.bodies import batch_size
    from ...producer.in_parts import batches

    bodies = cast("list[bytes]", chunk.batch.column("body").to_pylist())
    if not bodies:
        return  # the end of a partition
    # A spool whose description is damaged still has the topic in each row.
    named = topic or cast("list[str]", chunk.batch.column("topic").to_pylist())[0]
    for batch in batches(bodies, options.batch_bytes - batch_size(0, 0), options.batch_rows):
        await parts.publish(named, batch)


_SHOWN_OF_UUID = 8


def report(done: str, spools: Sequence[tuple[SpoolInfo, int]], *, as_json: bool) -> None:
    """Print, for each spool, how many rows were put back or deleted."""
    if as_json:
        click.echo(json.dumps([{**fields(info), "rows": rows} for info, rows in spools]))
    for info, rows in () if as_json else spools:
        click.echo(f"{done} {rows:,} rows of {_source(info)}, spool {info.uuid}")


def report_damage(info: SpoolInfo) -> None:
    """Report the damage to a spool on stderr."""
    for error in info.damage:
        click.echo(f"{error.path}: {_damage(error)}", err=True)


def _damage(error: SpoolError) -> str:
    """Return the error's text without its remedy, which is meant for a query."""
    return getattr(error, "damage", error.reason)


def _source(info: SpoolInfo) -> str:
    return f"{info.topic}/{info.channel}" if info.topic else "an unknown topic"


def fields(info: SpoolInfo) -> dict[str, Any]:
    """Return the fields of a spool for JSON."""
    return {
        "uuid": info.uuid,
        "state": info.state,
        "topic": info.topic,
        "channel": info.channel,
        "created": info.created.isoformat() if info.created else None,
        "epochs": info.epochs,
        "rows": info.rows,
        "bytes": info.bytes,
        "last_written": info.last_written.isoformat() if info.last_written else None,
        "user": info.user,
        "damage": [{"path": error.path, "reason": _damage(error)} for error in info.damage],
    }


def table(infos: Sequence[SpoolInfo]) -> Table:
    """Return a table with a row per spool."""
    from ..display import new_table

    names = ("spool", "topic/channel", "state", "last written (UTC)")
    shown = new_table(*names, numbers=["rows", "bytes"], whole=["spool"])
    for info in infos:
        last_written = f"{info.last_written:%Y-%m-%d %H:%M:%S}" if info.last_written else "never"
        shown.add_row(
            info.uuid[:_SHOWN_OF_UUID],
            _source(info),
            info.state,
            last_written,
            f"{info.rows:,}",
            f"{info.bytes:,}",
        )
    return shown
