"""The shared state of the message pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from anyio.abc import TaskGroup

from ...connection import prepared
from ...monitoring import Watch
from ...options import ConnectionOptions
from ..options import AdminOptions
from ..upstream import Upstream
from .auth_secret import guarded
from .bounds import MessageBounds
from .jobs import Jobs
from .tail import Tails


@dataclass(frozen=True, slots=True)
class Messages:
    """The live tails and the jobs on dead letters.

    :ivar connection: how messages are consumed
    """

    tails: Tails
    jobs: Jobs
    connection: ConnectionOptions

    @classmethod
    def of(cls, tasks: TaskGroup, watch: Watch, upstream: Upstream, options: AdminOptions) -> Self:
        """Start with no tail and no job.

        :param tasks: the task group for background work
        :raises InvalidOption: if a file of the TLS options cannot be read or used
        """
        given = guarded(
            options.connection, lambda: not upstream.nsqlookupds, auth_discovered=options.auth_discovered
        )
        connection, bounds = prepared(given), MessageBounds()
        return cls(
            Tails(tasks, watch, upstream, connection, bounds),
            Jobs(tasks, watch, upstream, connection, bounds),
            connection,
        )
