"""``nsq-anyio topic``."""

from __future__ import annotations

import click

from .actions import TOPIC_ACTIONS
from .ask import cluster_method
from .command import action_command
from .lists import list_command

__all__ = ["topic"]


@click.group(epilog="\b\nExample:\n  nsq-anyio topic pause clicks --lookupd-http-address=127.0.0.1:4161")
def topic() -> None:
    """List, create, delete, empty, pause and unpause topics, on a whole cluster."""


topic.add_command(
    list_command(
        "topic",
        (),
        cluster_method("topics"),
        "List all topics, those without an nsqd too.",
    )
)
for _action in TOPIC_ACTIONS:
    topic.add_command(action_command(_action, "topic", ("topic",), "clicks"))
