"""The responses of handlers, and the commands for producers."""

from __future__ import annotations

from typing import Any

from faststream.response import BatchPublishCommand, PublishCommand, PublishType, Response

__all__ = ["NsqPublishCommand", "NsqResponse"]


class NsqResponse(Response):
    """A handler's result with headers, a correlation id or a delay.

    :param body: the body
    :param headers: its headers, besides those of the publisher
    :param correlation_id: default: that of the message that is handled
    :param defer: seconds until nsqd delivers it, 0 or more; default: at once
    """

    def __init__(
        self,
        body: Any,
        *,
        headers: dict[str, str] | None = None,
        correlation_id: str | None = None,
        defer: float | None = None,
    ) -> None:
        super().__init__(body, headers=headers, correlation_id=correlation_id)
        self.defer = defer

    def as_publish_command(self) -> NsqPublishCommand:
        """Return the command for a publisher."""
        return NsqPublishCommand(
            self.body,
            headers=self.headers,
            correlation_id=self.correlation_id,
            defer=self.defer,
            _publish_type=PublishType.PUBLISH,
        )


class NsqPublishCommand(BatchPublishCommand):
    """One or several messages to publish.

    :ivar defer: seconds until nsqd delivers the message, None for no delay
    :ivar envelope: whether it is published with headers; None for the broker's setting
    :ivar is_result: whether it is a handler's result
    """

    def __init__(
        self,
        body: Any,
        /,
        *bodies: Any,
        _publish_type: PublishType,
        topic: str = "",
        reply_to: str = "",
        correlation_id: str | None = None,
        headers: dict[str, Any] | None = None,
        defer: float | None = None,
        envelope: bool | None = None,
    ) -> None:
        super().__init__(
            body,
            *bodies,
            _publish_type=_publish_type,
            destination=topic,
            reply_to=reply_to,
            correlation_id=correlation_id,
            headers=headers,
        )
        self.defer = defer
        self.envelope = envelope
        self.is_result = False

    @classmethod
    def from_cmd(cls, cmd: PublishCommand, *, batch: bool = False) -> NsqPublishCommand:
        """Return the command for a handler's result: ``cmd`` itself, or the same as an `NsqPublishCommand`.

        :param batch: whether a list as the body stands for several messages
        """
        if not isinstance(cmd, NsqPublishCommand):
            body, more = cls._parse_bodies(cmd.body, batch=batch)
            cmd = cls(
                body,
                *more,
                _publish_type=cmd.publish_type,
                topic=cmd.destination,
                reply_to=cmd.reply_to,
                correlation_id=cmd.correlation_id,
                headers=cmd.headers,
            )
        cmd.is_result = True
        return cmd
