"""``nsq-anyio channel``."""

from __future__ import annotations

import click

from .actions import CHANNEL_ACTIONS
from .ask import cluster_method
from .command import action_command
from .lists import list_command

__all__ = ["channel"]


@click.group(
    epilog="\b\nExample:\n  nsq-anyio channel empty clicks archive --lookupd-http-address=127.0.0.1:4161"
)
def channel() -> None:
    """List, create, delete, empty, pause and unpause channels, on a whole cluster."""


channel.add_command(
    list_command(
        "channel",
        ("topic",),
        cluster_method("channels"),
        "List the channels of a topic.",
    )
)
for _action in CHANNEL_ACTIONS:
    channel.add_command(action_command(_action, "channel", ("topic", "channel"), "clicks archive"))
