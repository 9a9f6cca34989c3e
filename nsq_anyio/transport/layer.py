"""The base of streams that stand on another stream: TLS and compression.

It stands apart from them because they take long to import, and few connections have them.
"""

from __future__ import annotations

from abc import abstractmethod

from anyio.abc import ByteStream


class Layer(ByteStream):
    """A stream over another one."""

    @property
    @abstractmethod
    def below(self) -> ByteStream:
        """The inner stream."""

    @abstractmethod
    def send_now(self, item: bytes, sent: list[int]) -> None:
        """Send all of ``item`` without waiting; the inner stream must have `send_now`, too.

        If the system does not accept all of it, nothing more can be sent. So use it only for the last bytes
        of a connection.

        :param sent: the length of ``item`` is appended to it
        :raises anyio.BrokenResourceError: if the peer has vanished, an earlier send was incomplete, or the
            system did not accept all
        :raises anyio.ClosedResourceError: if the stream was closed on this side
        """
