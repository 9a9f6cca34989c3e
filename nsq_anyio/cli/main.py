"""The group of all commands."""

from __future__ import annotations

import os
import signal
from functools import partial
from typing import Any

import click

from ..version import VERSION
from .ending import exit_after
from .lazy_group import COMPLETE_VARIABLE, LazyGroup, Location
from .signals import EndedBySignal

_COMMANDS = {
    "tail": Location(".tail.command:tail", "Print the messages of one or several topics as they arrive."),
    "pub": Location(".pub.command:pub", "Publish each line of FILES, or of standard input, as a message."),
    "stat": Location(
        ".stat.command:stat", "Show depths, rates and counters of channels, summed over all nsqds."
    ),
    "exporter": Location(
        ".exporter.command:exporter",
        "Serve the metrics of a cluster to Prometheus: nsqds, topics and channels.",
    ),
    "admin": Location(
        ".admin.command:admin",
        "Serve the dashboard of a cluster, and nsqadmin's HTTP API: what there is, and actions on it.",
    ),
    "to-file": Location(".to_file.command:to_file", "Write the messages of topics to files, one per line."),
    "to-http": Location(".to_http.command:to_http", "Send the messages of a topic to HTTP servers."),
    "to-nsq": Location(".to_nsq.command:to_nsq", "Republish the messages of topics to other nsqds."),
    "topic": Location(
        ".topics.command:topic", "List, create, delete, empty, pause and unpause topics across a cluster."
    ),
    "channel": Location(
        ".topics.command:channel",
        "List, create, delete, empty, pause and unpause channels across a cluster.",
    ),
    "node": Location(
        ".topics.command:node", "List the nsqds of a cluster, and remove a topic from one of them."
    ),
    "dead-letter": Location(
        ".dead_letter.command:dead_letter",
        "List, show, retry and drop the messages that consumers have given up or discarded.",
    ),
    "delay": Location(
        ".delay.command:delay",
        "Serve a topic of delayed messages, and list, count and cancel those that wait.",
    ),
    "run": Location(
        ".run.command:run",
        "Run a function as a service: call it with each message of one or more topics.",
    ),
    "pipeline": Location(
        ".pipeline.command:pipeline",
        "Run a pipeline on Spark, locally or on a cluster; needs Java 17 or later.",
    ),
    "spool": Location(".spool.command:spool", "List and clear the spools of Spark's streaming queries."),
    "demo": Location(".demo.command:demo", "Publish messages, consume them, and show the throughput."),
    "up": Location(
        ".servers.up:up",
        "Run several nsqds and one nsqlookupd on NSQ's usual ports, for development and tests.",
    ),
    "nsqd": Location(
        ".servers.command:nsqd", "Run an nsqd for development and tests, with the flags of the real nsqd."
    ),
    "nsqlookupd": Location(
        ".servers.command:nsqlookupd",
        "Run an nsqlookupd for development and tests, with the flags of the real nsqlookupd.",
    ),
    "completion": Location(
        ".completion:completion",
        "Print the script that completes commands, flags and their values in SHELL.",
    ),
}


class _AllCommands(LazyGroup):
    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        if COMPLETE_VARIABLE in os.environ:
            from .completion import register_shells

            register_shells()
        call = partial(super().main, *args, standalone_mode=False, **extra)
        return exit_after(call) if standalone_mode else call()

    def invoke(self, ctx: click.Context) -> Any:
        """Raise `EndedBySignal` for a KeyboardInterrupt; click would print "Aborted!"."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise EndedBySignal(signal.SIGINT) from None


@click.group(
    cls=_AllCommands,
    locations=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "auto_envvar_prefix": "NSQ_ANYIO"},
    epilog="\b\nExample:\n  nsq-anyio demo\n  nsq-anyio tail --help",
)
@click.version_option(VERSION, allow_from_autoenv=False, prog_name="nsq-anyio")
def cli() -> None:
    """NSQ on the command line: print, publish, archive, forward and watch messages; manage topics."""
