"""The producer of `produce` with ``copies``: a publish that several different nsqds store.

A copy is a publication of its own: it never goes to an nsqd that has, or is about to get, another copy of the
same message. Copies do not wait in line for each other: one that waits for a certain nsqd must not keep the
first copy of another message from being stored anywhere at all.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, ClassVar
from uuid import uuid4

from ..envelope import ID_HEADER, MAGIC, decode, encode, encode_headers
from ..errors import (
    FewerCopies,
    InvalidEnvelope,
    InvalidOption,
    NotSent,
    OutcomeUnknown,
    PublishError,
    PublishRejected,
)
from ..options import ProducerOptions
from ..protocol.session import Command
from .bodies import Body, check_bodies, check_body
from .dispatcher import Dispatcher
from .pool import ProducerConnection
from .producer import Producer, WrappedProducer
from .publication import Attempt, Publication


class Copy(Publication):
    """One copy of one or several messages.

    :ivar others: the other copies
    :ivar sent_to: the connection of the last attempt
    """

    __slots__ = ("others", "sent_to")

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.others: list[Copy] = []
        self.sent_to: ProducerConnection | None = None

    @property
    def place(self) -> ProducerConnection | None:
        """The nsqd that has stored this copy, or is asked to; None if there is none."""
        return self.sent_to if self.attempt is not None or (self.done and self.error is None) else None

    @property
    def avoided(self) -> tuple[ProducerConnection, ...]:
        """The connections that must not get this copy."""
        places = (other.place for other in self.others)
        return (*self.refused_by, *(place for place in places if place is not None))


class CopyDispatcher(Dispatcher):
    """Sends copies, each to another nsqd than the other copies of its message."""

    def __init__(self, *arguments: Any, noting: bool, **others: Any) -> None:
        del noting  # always: the error of a publish names the nsqds that have stored it
        super().__init__(*arguments, noting=True, **others)

    def submit(self, publication: Publication, now: float) -> None:
        self.watch(publication)
        if not self._send(publication, now):
            self._to_send[publication] = None
            if not self.pool.open:
                self._notify()

    def _send(self, publication: Publication, now: float) -> bool:
        assert isinstance(publication, Copy)  # noqa: S101 - `CopyingProducer` submits nothing else
        connection = self.pool.pick(
            publication.topic, publication.messages, publication.size, now, publication.avoided
        )
        if connection is None:
            return False
        command, data = publication.encode()
        attempt = publication.attempt = Attempt(publication, connection, len(data), now, self._take_answer)
        publication.sent_to = connection
        connection.send(command, data, attempt.messages, attempt)
        return True

    def _send_waiting(self) -> None:
        """Send the copies for which an nsqd has room; the others go on waiting."""
        now = self.now()
        for publication in [*self._to_resend, *self._to_send]:
            if not any(connection.has_room(1, 1) for connection in self.pool.open):
                return
            if publication.done:
                continue  # an event hook may have ended it during this loop
            if self._send(publication, now):
                self._stop_waiting(publication)
            elif publication.refusal is not None and self._all_refused(publication):
                self._complete(publication, publication.refusal)

    def _all_refused(self, publication: Publication) -> bool:
        assert isinstance(publication, Copy)  # noqa: S101 - as in `_send`
        avoided = publication.avoided
        return all(connection in avoided for connection in self.pool.open)


class CopyingProducer(Producer):
    """A `Producer` whose publishes return once ``copies`` different nsqds have stored them."""

    _dispatcher_class: ClassVar[type[Dispatcher]] = CopyDispatcher

    def __init__(self, *arguments: Any, copies: int, options: ProducerOptions, **others: Any) -> None:
        # Consumers recognise what may now be stored twice, and another nsqd may take it at once.
        options = dataclasses.replace(options, resend_unknown=True)
        super().__init__(*arguments, options=options, **others)
        self._copies = copies

    async def publish(
        self,
        topic: str,
        body: Body,
        *,
        headers: Mapping[str, str] | None = None,
        defer: float | None = None,
        at: datetime | None = None,
        durable: bool = False,
    ) -> None:
        data, id = self._identified(body, headers)
        try:
            await super().publish(topic, data, defer=defer, at=at, durable=durable)
        except FewerCopies as error:
            raise FewerCopies(error.stored_by, error.wanted, id, str(error.__cause__)) from error.__cause__

    async def publish_many(
        self, topic: str, bodies: Iterable[Body], *, headers: Mapping[str, str] | None = None
    ) -> None:
        given = check_bodies(bodies, self._options)
        if len(given) > 1 and headers and _given_id(headers) is not None:
            raise InvalidOption(
                f"the header {ID_HEADER} is not valid for {len(given)} messages, which would be copies of "
                "each other: publish each with an id of its own"
            )
        identified = [self._identified(body, headers)[0] for body in given]
        await super().publish_many(topic, identified)

    def _identified(self, body: Body, headers: Mapping[str, str] | None) -> tuple[bytes, str]:
        """Return the body in an envelope with an id, and the id: that of the user, or a new one.

        :raises InvalidBody: as `check_body` does
        :raises InvalidOption: if an envelope cannot hold the headers, or the user's id is empty
        """
        payload = check_body(body, self._options)
        if headers is None and payload.startswith(MAGIC):
            try:  # the user has made the envelope
                envelope = decode(payload)
            except InvalidEnvelope:
                pass  # to consumers it is a body like any other
            else:
                headers, payload = envelope.headers, envelope.payload
        if headers is None:
            headers = {}
        id = _given_id(headers)
        if id is None:
            id = uuid4().hex
            headers = {**headers, ID_HEADER: id}
        elif not id:
            raise InvalidOption(f"header {ID_HEADER}={id!r} is not valid: use text that names one message")
        return encode(payload, headers), id

    async def _publish(self, command: Command, topic: str, data: bytes, messages: int) -> Publication:
        self._check_open()
        dispatcher = self._dispatcher
        now = dispatcher.now()
        copies = [
            Copy(command, topic, data, messages, now, now + self._timeout, dispatcher.new_event())
            for _ in range(self._copies)
        ]
        for copy in copies:
            copy.others = [other for other in copies if other is not copy]
        for copy in copies:
            dispatcher.submit(copy, now)
        try:
            for copy in copies:
                if not copy.done:
                    await copy.event.wait()
        except BaseException:
            for copy in copies:
                dispatcher.abandon(copy)
            raise
        errors = [copy.error for copy in copies if copy.error is not None]
        if errors:
            raise _outcome(errors, copies)
        return copies[0]


def _given_id(headers: Mapping[str, str]) -> str | None:
    """Return the user's id; None if there is none, or if `encode` will refuse the headers."""
    if not isinstance(headers, Mapping):
        encode_headers(headers)  # it raises
    return next((headers[name] for name in headers if str(name).lower() == ID_HEADER), None)


def _outcome(errors: list[PublishError], copies: list[Copy]) -> PublishError:
    """Return the error of a publish, some or all of whose copies have failed."""
    stored_by = tuple(copy.stored_by for copy in copies if copy.error is None)
    cause = min(errors, key=lambda error: _SEVERITY.index(type(error)))
    if not stored_by:
        return cause
    fewer = FewerCopies(stored_by, len(copies), None, str(cause))
    fewer.__cause__ = cause
    return fewer


_SEVERITY: list[type[PublishError]] = [OutcomeUnknown, PublishRejected, NotSent]
"""The outcomes of a copy; the first that occurs is that of a message that no nsqd has certainly stored."""


class WrappedCopyingProducer(WrappedProducer, CopyingProducer):
    """A `CopyingProducer` with middleware, which sees one publish, whatever the number of its copies."""
