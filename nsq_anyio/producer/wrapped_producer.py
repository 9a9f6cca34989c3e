"""A producer with middleware."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from contextvars import ContextVar
from typing import Any

from ..envelope import encode_headers
from ..middleware import Around, in_own_context
from ..names import check_topic
from ..protocol.session import Command
from .bodies import Body, check_bodies, check_body
from .producer import Producer
from .publication import Publication
from .publishing import Publishing

_current: ContextVar[Publishing] = ContextVar("publishing")
"""The publish that is running in this context."""


class WrappedProducer(Producer):
    """A `Producer` that enters its middleware around each publish, in a context of its own."""

    async def publish(
        self,
        topic: str,
        body: Body,
        *,
        headers: Mapping[str, str] | None = None,
        defer: float | None = None,
    ) -> None:
        """As `Producer.publish`. A middleware may raise other errors too."""
        data = check_body(body, self._options)

        async def publish(headers: Mapping[str, str] | None) -> None:
            await super(WrappedProducer, self).publish(topic, data, headers=headers, defer=defer)

        await self._wrapped(topic, [data], headers, publish)

    async def publish_many(
        self, topic: str, bodies: Iterable[Body], *, headers: Mapping[str, str] | None = None
    ) -> None:
        """As `Producer.publish_many`. A middleware may raise other errors too."""
        checked = check_bodies(bodies, self._options)

        async def publish(headers: Mapping[str, str] | None) -> None:
            await super(WrappedProducer, self).publish_many(topic, checked, headers=headers)

        await self._wrapped(topic, checked, headers, publish)

    async def _publish(self, command: Command, topic: str, data: bytes, messages: int) -> Publication:
        publication = await super()._publish(command, topic, data, messages)
        _current.get().nsqd = publication.stored_by
        return publication

    async def _wrapped(
        self,
        topic: str,
        bodies: list[bytes],
        headers: Mapping[str, str] | None,
        publish: Callable[[Mapping[str, str] | None], Coroutine[Any, Any, None]],
    ) -> None:
        check_topic(topic)
        if headers is not None:
            encode_headers(headers)  # checks them
        publishing = Publishing(topic, len(bodies), sum(map(len, bodies)), headers or {})
        around = Around(self._middleware, publishing, self._options.cancelled_drain_timeout)

        async def run() -> None:
            _current.set(publishing)
            async with around:
                await publish(publishing.headers or None)

        await in_own_context(run())
