"""Subscribers and publishers that are declared apart from their broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fast_depends.dependencies import Dependant
from faststream._internal.broker.router import ArgsContainer, BrokerRouter, SubscriberRoute
from faststream._internal.constants import EMPTY
from faststream._internal.types import BrokerMiddleware, CustomCallable
from faststream.middlewares import AckPolicy

from .config import NsqBrokerConfig
from .message import RawMessage
from .registrator import NsqRegistrator

__all__ = ["NsqPublisher", "NsqRoute", "NsqRouter"]


class NsqPublisher(ArgsContainer):
    """A publisher of an `NsqRoute`.

    :param topic: the topic, after the prefixes of the routers
    :param options: as for `NsqBroker.publisher`
    """

    def __init__(self, topic: str, **options: Any) -> None:
        super().__init__(topic, **options)


class NsqRoute(SubscriberRoute):
    """A handler and its subscriber.

    :param call: the handler
    :param topic: the topic, after the prefixes of the routers
    :param channel: the channel
    :param publishers: where the results of the handler are published
    :param options: as for `NsqBroker.subscriber`
    """

    def __init__(
        self,
        call: Callable[..., Any],
        topic: str,
        channel: str,
        *,
        publishers: Iterable[NsqPublisher] = (),
        **options: Any,
    ) -> None:
        super().__init__(call, topic, channel, publishers=publishers, **options)


class NsqRouter(  # pyright: ignore[reportIncompatibleMethodOverride] - as NsqBroker
    NsqRegistrator, BrokerRouter[RawMessage, NsqBrokerConfig]
):
    """Subscribers and publishers for ``broker.include_router``.

    :param prefix: text in front of the topics
    :param handlers: handlers with their subscribers, in place of decorators
    :param dependencies: dependencies of all handlers
    :param middlewares: middlewares of all handlers and publishers
    :param routers: routers to include in this one
    :param parser: as for `NsqBroker.subscriber`
    :param decoder: as for `NsqBroker.subscriber`
    :param include_in_schema: whether they are in AsyncAPI
    :param ack_policy: how messages are answered; default: the broker's policy
    """

    def __init__(
        self,
        prefix: str = "",
        handlers: Iterable[NsqRoute] = (),
        *,
        dependencies: Sequence[Dependant] = (),
        middlewares: Sequence[BrokerMiddleware[Any, Any]] = (),
        routers: Iterable[NsqRegistrator] = (),
        parser: CustomCallable | None = None,
        decoder: CustomCallable | None = None,
        include_in_schema: bool | None = None,
        ack_policy: AckPolicy = EMPTY,
    ) -> None:
        super().__init__(
            handlers=handlers,
            config=NsqBrokerConfig(
                prefix=prefix,
                broker_dependencies=dependencies,
                broker_middlewares=middlewares,
                broker_parser=parser,
                broker_decoder=decoder,
                include_in_schema=include_in_schema,
                ack_policy=ack_policy,
            ),
            routers=routers,
        )
