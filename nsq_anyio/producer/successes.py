"""Report what nsqd has stored to everything that needs to know."""

from __future__ import annotations

import anyio

from ..events import Emitter, PublishedMessages
from .meter import ProducerMeter
from .pool import Pool
from .publication import Attempt


class Successes:
    """Reports successful attempts to the pool's mode, to the event hook, and to a meter.

    :param noting: whether to note in `Publication.stored_by` which nsqd has stored it
    :ivar meter: measures the producer; None if there is no meter
    """

    def __init__(self, pool: Pool, emit: Emitter, *, noting: bool) -> None:
        self.meter: ProducerMeter | None = None
        self._noting = noting
        self._pool = pool
        self._emit = emit

    @property
    def are_wanted(self) -> bool:
        """Whether anything needs these reports. Mostly nothing does, and a publish costs less."""
        return self.meter is not None or self._pool.tracks_success or self._emit.has_hook or self._noting

    def report(self, attempt: Attempt) -> None:
        """Report that nsqd has stored the messages of an attempt."""
        now = anyio.current_time()
        publication, connection = attempt.publication, attempt.connection
        seconds = now - attempt.sent_at
        self._pool.succeeded(connection, seconds, now)
        publication.stored_by = connection.nsqd
        if self._emit.has_hook:
            self._emit.to_hook(
                PublishedMessages(connection.nsqd, attempt.messages, seconds, topic=publication.topic)
            )
        if self.meter is not None:
            self.meter.stored(publication.topic, attempt.messages, attempt.size, now - publication.started)
