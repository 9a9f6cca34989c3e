"""Publishers to one topic: for users, for the results of handlers, and for replies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from faststream._internal.basic_types import SendableMessage
from faststream._internal.configs import PublisherSpecificationConfig, PublisherUsecaseConfig
from faststream._internal.endpoint.publisher import PublisherSpecification, PublisherUsecase
from faststream._internal.endpoint.publisher.fake import FakePublisher
from faststream._internal.types import PublisherMiddleware
from faststream.response import PublishCommand, PublishType
from faststream.specification.asyncapi.utils import resolve_payloads
from faststream.specification.schema import Message, Operation, PublisherSpec

from .config import NsqBrokerConfig
from .errors import RequestsUnsupported
from .producer import NsqProducer
from .response import NsqPublishCommand

__all__ = [
    "NsqPublisher",
    "NsqPublisherConfig",
    "NsqPublisherSpecification",
    "NsqPublisherSpecificationConfig",
    "NsqReplyPublisher",
]


@dataclass(kw_only=True)
class NsqPublisherSpecificationConfig(PublisherSpecificationConfig):
    """The description of a publisher in AsyncAPI."""

    topic: str


@dataclass(kw_only=True)
class NsqPublisherConfig(PublisherUsecaseConfig):
    """The settings of a publisher; `NsqRegistrator.publisher` describes them."""

    _outer_config: NsqBrokerConfig = field(  # pyright: ignore[reportIncompatibleVariableOverride]
        default_factory=NsqBrokerConfig
    )
    topic: str
    headers: dict[str, str]
    reply_to: str
    defer: float | None
    envelope: bool | None
    batch: bool


class NsqPublisherSpecification(PublisherSpecification[NsqBrokerConfig, NsqPublisherSpecificationConfig]):
    """A channel of AsyncAPI for each publisher."""

    __slots__ = ()

    @property
    def topic(self) -> str:
        """The topic, with the prefixes of the routers."""
        return f"{self._outer_config.prefix}{self.config.topic}"

    @property
    def name(self) -> str:
        """The name of AsyncAPI's channel."""
        return self.config.title_ or f"{self.topic}:Publisher"

    def get_schema(self) -> dict[str, PublisherSpec]:
        payload = resolve_payloads(self.get_payloads(), "Publisher")
        message = Message(title=f"{self.name}:Message", payload=payload)
        return {
            self.name: PublisherSpec(
                address=self.topic,
                description=self.config.description_,
                operation=Operation(message=message, bindings=None),
                bindings=None,
            )
        }


class NsqPublisher(PublisherUsecase):
    """Publishes to one topic, also the results of handlers it decorates. Made by ``broker.publisher``."""

    _outer_config: NsqBrokerConfig

    def __init__(self, config: NsqPublisherConfig, specification: PublisherSpecification[Any, Any]) -> None:
        super().__init__(config, specification)
        self._config = config

    @property
    def topic(self) -> str:
        """The topic, with the prefixes of the routers."""
        return f"{self._outer_config.prefix}{self._config.topic}"

    async def publish(
        self,
        message: SendableMessage,
        *,
        headers: dict[str, str] | None = None,
        correlation_id: str | None = None,
        reply_to: str = "",
        defer: float | None = None,
    ) -> None:
        """Publish a message, and return once nsqd has stored it.

        :param message: the body: bytes, text, or a value that the serializer encodes
        :param headers: its headers, besides those of the publisher
        :param correlation_id: default: a new one
        :param reply_to: the topic for the result of its handler; default: the publisher's
        :param defer: seconds until nsqd delivers it, 0 or more; default: the publisher's
        :raises NSQError: see `nsq_anyio.Producer.publish`
        """
        command = NsqPublishCommand(
            message,
            topic=self.topic,
            headers=self._config.headers | (headers or {}),
            correlation_id=correlation_id or self._outer_config.id_generator(),
            reply_to=reply_to or self._config.reply_to,
            defer=self._config.defer if defer is None else defer,
            envelope=self._config.envelope,
            _publish_type=PublishType.PUBLISH,
        )
        await self._basic_publish(command, producer=self._outer_config.producer, _extra_middlewares=())

    async def request(self, message: SendableMessage, *_: Any, **__: Any) -> NoReturn:
        """Refuse.

        :raises RequestsUnsupported: always
        """
        del message
        raise RequestsUnsupported(self.topic)

    async def _publish(
        self, cmd: PublishCommand, *, _extra_middlewares: Iterable[PublisherMiddleware]
    ) -> None:
        """Publish a handler's result; called by FastStream."""
        config, producer = self._config, self._outer_config.producer
        command = NsqPublishCommand.from_cmd(cmd, batch=config.batch)
        command.destination = self.topic
        command.add_headers(config.headers, override=False)
        command.reply_to = command.reply_to or config.reply_to
        command.defer = config.defer if command.defer is None else command.defer
        command.envelope = config.envelope if command.envelope is None else command.envelope
        publish = self._basic_publish_batch if config.batch else self._basic_publish
        await publish(command, producer=producer, _extra_middlewares=_extra_middlewares)


class NsqReplyPublisher(FakePublisher):
    """Publishes the result of a handler to the topic that the message names in ``reply_to``."""

    def __init__(self, producer: NsqProducer, topic: str) -> None:
        super().__init__(producer=producer)
        self._topic = topic

    def patch_command(self, cmd: PublishCommand) -> NsqPublishCommand:
        """Return the command of a reply."""
        command = NsqPublishCommand.from_cmd(super().patch_command(cmd))
        command.destination = self._topic
        return command
