"""``nsq-anyio node``."""

from __future__ import annotations

import click

from .actions import TOMBSTONE
from .command import action_command
from .lists import node_list

__all__ = ["node"]


@click.group(epilog="\b\nExample:\n  nsq-anyio node list --lookupd-http-address=127.0.0.1:4161")
def node() -> None:
    """List the nsqds of a cluster, and take a topic away from one of them."""


node.add_command(node_list)
node.add_command(action_command(TOMBSTONE, "node", ("topic", "node"), "clicks 10.0.0.5:4151"))
