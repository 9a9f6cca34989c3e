"""``nsq-anyio spool``: what Spark's streaming queries have taken from NSQ and their sinks may not have."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from ..command import UtilityCommand, quiet_command_flags
from ..pipeline.command import spark_option
from .show import fields, report, table, tell_damage

if TYPE_CHECKING:
    from ...producer.in_parts import InParts
    from ...spark.chunk_file import Chunk, Record
    from ...spark.options import WriteOptions
    from ...spark.spool_admin import SpoolInfo

__all__ = ["delete_spools", "list_spools", "put_back", "spool"]

_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables and text.")
_directory = click.argument("directory", metavar="DIR", type=click.Path(file_okay=False))
_chosen = click.argument("uuids", metavar="[UUID]...", nargs=-1)
_all = click.option("--all", "all_of_them", is_flag=True, help="All spools of DIR instead of those named.")
_yes = click.option("--yes", is_flag=True, help="Do it without asking.")
_force = click.option(
    "--force",
    is_flag=True,
    help="Also what is in use: its query fails, and needs a new checkpoint.",
)


@click.group()
def spool() -> None:
    """List and clear the spools of Spark's streaming queries.

    DIR is the option spoolDir of the queries; a UUID may be cut short. A spool is orphaned when its query
    will never run again with the same checkpoint. A query that runs, or will, needs its own: what is in use
    is left alone.
    """


@spool.command("list", cls=UtilityCommand, epilog="\b\nExample:\n  nsq-anyio spool list /shared/nsq-spool")
@_directory
@_json_option
@quiet_command_flags
def list_spools(directory: str, as_json: bool, backend: str) -> None:  # noqa: ARG001 - all commands have it
    """Show the spools, the oldest first.

    The rows are those of batches that Spark has not committed; the newest batch of a query that has ended is
    among them until it is started again, even if the sink has it. Every chunk is read, and its checksum
    compared: of a damaged spool the rows are those that are sound.
    """
    from ..pipeline.run import errors_explained

    with errors_explained():
        from ...spark.spool_admin import find_spools

        found = find_spools(directory)
    if as_json:
        click.echo(json.dumps([fields(info) for info in found]))
    elif found:
        from rich.console import Console

        Console().print(table(found))
        for info in found:
            tell_damage(info)
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
@spark_option
@_yes
@_force
@_json_option
@quiet_command_flags
def put_back(
    directory: str,
    uuids: Sequence[str],
    all_of_them: bool,
    nsqd: Sequence[str],
    options: dict[str, str],
    yes: bool,
    force: bool,
    as_json: bool,
    backend: str,
) -> None:
    """Publish orphaned rows to their topic again, then delete their spools.

    All channels of the topic get them, and what the sink had already comes again, with another id. Of a
    damaged spool what is sound is published and deleted, and the rest stays. With --force a running query may
    have handed on what is published again, and it fails when it misses its rows.
    """
    from ..pipeline.run import errors_explained
    from ..run import run_to_end

    with errors_explained():
        from ...spark.options import write_options

        access = write_options({"nsqd": ",".join(nsqd), **options})
        chosen = _choose(directory, uuids, all_of_them=all_of_them, force=force)
        _confirm(chosen, "Publish these rows to NSQ again, and delete the spools?", yes=yes)
        done: list[tuple[SpoolInfo, int, list[Path]]] = []
        try:
            run_to_end(partial(_put_back, chosen, access, done), backend)
        finally:
            report("put back", [(info, rows) for info, rows, _ in done], as_json=as_json)
    for info, _, left in done:
        tell_damage(info)
        for path in left:
            click.echo(f"{path} stays", err=True)
    if any(left for _, _, left in done):
        raise click.ClickException(
            "not all could be put back: look at what stays, which `nsq-anyio spool delete` deletes"
        )


@spool.command(
    "delete", cls=UtilityCommand, epilog="\b\nExample:\n  nsq-anyio spool delete /shared/nsq-spool 1f0c"
)
@_directory
@_chosen
@_all
@_yes
@_force
@_json_option
@quiet_command_flags
def delete_spools(
    directory: str,
    uuids: Sequence[str],
    all_of_them: bool,
    yes: bool,
    force: bool,
    as_json: bool,
    backend: str,  # noqa: ARG001 - all commands have it
) -> None:
    """Delete spools with their rows, which are in NSQ no more.

    With --force the rows of a running query that its sink does not have are lost.
    """
    from ..pipeline.run import errors_explained

    with errors_explained():
        from ...spark.spool_admin import delete

        chosen = _choose(directory, uuids, all_of_them=all_of_them, force=force)
        _confirm(chosen, "Delete these rows for good?", yes=yes)
        for info in chosen:
            delete(info)
    report("deleted", [(info, info.rows) for info in chosen], as_json=as_json)


def _choose(directory: str, uuids: Sequence[str], *, all_of_them: bool, force: bool) -> list[SpoolInfo]:
    """Return the spools that the beginnings of UUIDs name, each once.

    :raises click.UsageError: if one names none or several, or it is not said which
    :raises click.ClickException: if one that is named is in use
    """
    from ...spark.lease import time_of
    from ...spark.spool_admin import find_spools

    if bool(uuids) == all_of_them:
        raise click.UsageError("name the spools, or use --all for all of them")
    found = find_spools(directory, time_of(Path(directory)))
    chosen: dict[str, SpoolInfo] = {}
    for beginning in uuids:
        named = [info for info in found if info.uuid.startswith(beginning)]
        if len(named) != 1:
            several = f"{len(named)} spools" if named else "no spool"
            raise click.UsageError(
                f"{beginning!r} names {several} of {directory}: see `nsq-anyio spool list`"
            )
        chosen[named[0].uuid] = named[0]
    if all_of_them:
        chosen = {info.uuid: info for info in found}
    used = [info for info in chosen.values() if info.user and not force]
    for info in used:
        text = f"spool {info.uuid} is in use by {info.user}"
        if not all_of_them:
            raise click.ClickException(
                f"{text}: stop it first, or wait for a minute if it was killed; --force does it all the "
                "same, and the query fails"
            )
        click.echo(f"{text}: left alone", err=True)
        del chosen[info.uuid]
    return list(chosen.values())


def _confirm(chosen: Sequence[SpoolInfo], question: str, *, yes: bool) -> None:
    if not yes and chosen:
        from rich.console import Console

        Console(stderr=True).print(table(chosen))
        click.confirm(question, abort=True, err=True)


async def _put_back(
    chosen: Sequence[SpoolInfo], access: WriteOptions, done: list[tuple[SpoolInfo, int, list[Path]]]
) -> None:
    """Publish spool after spool; ``done`` has those that are, the rows of each, and what stays of it."""
    import anyio.to_thread

    from ...producer import produce
    from ...producer.in_parts import InParts, MpubLimit
    from ...spark.spool_admin import clear, sound_chunks

    async with produce(
        access.nsqds, options=access.producer_options(), connection=access.connection_options()
    ) as producer:
        parts = InParts(producer, MpubLimit(access.max_body_size))
        for info in chosen:
            chunks = sound_chunks(info)
            published: list[tuple[Path, Record]] = []
            while chunk := await anyio.to_thread.run_sync(next, chunks, None):
                await _publish(parts, chunk, info.topic, access)
                published.append((chunk.path, chunk.record))
            # Only now; what fails before leaves the spool as it was.
            left = await anyio.to_thread.run_sync(clear, info, published)
            done.append((info, sum(record.rows for _, record in published), left))


async def _publish(parts: InParts, chunk: Chunk, topic: str | None, access: WriteOptions) -> None:
    from ...producer.bodies import batch_size
    from ...producer.in_parts import batches

    bodies = cast("list[bytes]", chunk.batch.column("body").to_pylist())
    if not bodies:
        return  # the end of a partition
    # A spool whose description is damaged still has the topic in each row.
    named = topic or cast("list[str]", chunk.batch.column("topic").to_pylist())[0]
    for batch in batches(bodies, access.batch_bytes - batch_size(0, 0), access.batch_rows):
        await parts.publish(named, batch)
