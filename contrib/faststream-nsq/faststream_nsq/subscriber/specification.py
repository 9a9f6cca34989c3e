"""The AsyncAPI specification of a subscriber."""

from __future__ import annotations

from faststream._internal.endpoint.subscriber import SubscriberSpecification
from faststream.specification.asyncapi.utils import resolve_payloads
from faststream.specification.schema import Message, Operation, SubscriberSpec

from ..config import NsqBrokerConfig
from .config import NsqSubscriberSpecificationConfig

__all__ = ["NsqSubscriberSpecification"]


class NsqSubscriberSpecification(
    SubscriberSpecification[NsqBrokerConfig, NsqSubscriberSpecificationConfig],
):
    """A channel of AsyncAPI for each subscriber. AsyncAPI defines no bindings for NSQ."""

    __slots__ = ()

    @property
    def topic(self) -> str:
        """The topic, with the prefixes of the routers."""
        return f"{self._outer_config.prefix}{self.config.topic}"

    @property
    def channel_labels(self) -> list[str]:
        """Topic and channel: several subscribers of a topic have a channel each."""
        return [f"{self.topic}:{self.config.channel}"]

    @property
    def name(self) -> str:
        """The name of AsyncAPI's channel."""
        return self.config.title_ or f"{self.channel_labels[0]}:{self.call_name}"

    def get_schema(self) -> dict[str, SubscriberSpec]:
        message = Message(title=f"{self.name}:Message", payload=resolve_payloads(self.get_payloads()))
        return {
            self.name: SubscriberSpec(
                address=self.topic,
                description=self.description,
                operation=Operation(message=message, bindings=None),
                bindings=None,
            )
        }
