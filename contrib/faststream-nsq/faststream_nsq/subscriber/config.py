"""The configuration of a subscriber."""

from __future__ import annotations

from dataclasses import dataclass, field

from faststream._internal.configs import SubscriberSpecificationConfig, SubscriberUsecaseConfig
from faststream._internal.constants import EMPTY
from faststream.middlewares import AckPolicy

import nsq_anyio as nsq

from ..config import NsqBrokerConfig

__all__ = ["NsqSubscriberConfig", "NsqSubscriberSpecificationConfig"]


@dataclass(kw_only=True)
class NsqSubscriberSpecificationConfig(SubscriberSpecificationConfig):
    """The description of a subscriber in AsyncAPI."""

    topic: str
    channel: str


@dataclass(kw_only=True)
class NsqSubscriberConfig(SubscriberUsecaseConfig):
    """The settings of a subscriber; `NsqRegistrator.subscriber` describes them."""

    _outer_config: NsqBrokerConfig = field(  # pyright: ignore[reportIncompatibleVariableOverride]
        default_factory=NsqBrokerConfig
    )
    topic: str
    channel: str
    max_workers: int
    max_in_flight: int
    keep_alive: bool
    dead_letter: str | None
    options: nsq.ConsumerOptions | None

    @property
    def ack_policy(self) -> AckPolicy:
        """The subscriber's own policy, or else the broker's, or else NACK_ON_ERROR."""
        for policy in (self._ack_policy, self._outer_config.ack_policy):
            if policy is not EMPTY:
                return policy
        return AckPolicy.NACK_ON_ERROR
