"""Every exception of the package, under one root.

::

    NSQError
    ├── InvalidOption (ValueError)      a value was refused before anything was sent
    │   ├── InvalidName                 a topic or channel name
    │   ├── InvalidAddress              an nsqd or nsqlookupd address
    │   └── InvalidBody                 an empty or oversized message
    ├── InvalidEnvelope (ValueError)    a body that begins like an envelope, but cannot be read
    ├── ConnectionFailed                no usable connection to one nsqd
    │   ├── DialFailed                  the transport could not be opened
    │   ├── HandshakeFailed             opened, but the peer did not finish the handshake
    │   ├── TLSFailed                   nsqd declined TLS, or one side does not trust the other
    │   └── ConnectionLost              an established connection ended
    │       └── HeartbeatTimeout        ... because nsqd was silent for too long
    ├── ProtocolError                   the peer violated the protocol
    │   └── FrameTooLarge
    ├── ServerError                     nsqd answered with an error frame
    │   └── PermanentRefusal            ... that no retry can change
    ├── PublishError
    │   ├── PublishRejected             nsqd refused the message
    │   ├── NotSent                     certainly not stored: safe to retry
    │   ├── OutcomeUnknown              no answer came: the message may be stored or not
    │   └── FewerCopies                 some nsqds stored the message, but fewer than wanted
    ├── HTTPError                       a request to nsqd or nsqlookupd failed
    │   ├── HTTPUnavailable             no answer
    │   ├── HTTPStatusError             an answer with an error status
    │   ├── HTTPInvalidReply            not an answer of this endpoint
    │   └── ClusterFailed               no server did what was asked [http]
    ├── AlreadyResponded (RuntimeError) a second answer to one message
    ├── Closed (RuntimeError)           a consumer or producer used after its block
    │   └── NotEntered (AttributeError) ... or before it
    ├── WouldDeadlock (RuntimeError)    a blocking call in the thread that must do the work
    ├── DelayFileUnusable               the file of delayed messages cannot be used
    ├── Requeue, Discard                raised by handlers to requeue or discard a message
    ├── ListenFailed                    a server cannot listen at its address [serving]
    ├── DataPathUnusable                an embedded nsqd cannot use its data path [embedded]
    ├── SpoolError                      a spool cannot be read or written [spark]
    │   ├── SpoolDamaged                a part of it is missing or altered [spark]
    │   └── AttemptSuperseded           another attempt stores the partition [spark]
    │       └── NumberTaken             ... and has stored this chunk first [spark]
    ├── StoreFailed                     a store of ids cannot be used [deduplication]
    ├── PeekTooLong                     a peek outlasts what nsqd allows [spark]
    ├── PipelineFailed, JavaMissing     a query failed; no Java, or one that is too old [spark]
    ├── RealServerError                 a real server cannot be started [testing]
    ├── HistoryFileUnusable             the file of a cluster's history cannot be used [monitoring]
    ├── NoSubscription                  no nsqd accepts a subscription in time [dead_letters]
    ├── NothingLasts                    without a lasting channel, reading would take the messages [admin]
    ├── CannotWrite, WorkDirUnusable    to-file cannot write an archive; its directory is in use [cli]
    └── DemoStalled                     the demo received no more messages [cli]

A name in brackets is the subpackage that defines the exception, because its extra may not be installed.
Cancellation is not one of these exceptions, and is never turned into one.
"""

from __future__ import annotations

import math

__all__ = [
    "AlreadyResponded",
    "Closed",
    "ConnectionFailed",
    "ConnectionLost",
    "DelayFileUnusable",
    "DialFailed",
    "Discard",
    "FewerCopies",
    "FrameTooLarge",
    "HTTPError",
    "HTTPInvalidReply",
    "HTTPStatusError",
    "HTTPUnavailable",
    "HandshakeFailed",
    "HeartbeatTimeout",
    "InvalidAddress",
    "InvalidBody",
    "InvalidEnvelope",
    "InvalidName",
    "InvalidOption",
    "NSQError",
    "NotEntered",
    "NotSent",
    "OutcomeUnknown",
    "PermanentRefusal",
    "ProtocolError",
    "PublishError",
    "PublishRejected",
    "Requeue",
    "ServerError",
    "TLSFailed",
    "WouldDeadlock",
]


class NSQError(Exception):
    """The base class of every exception that this package raises; it can be pickled and copied."""

    def __reduce__(self) -> tuple[object, ...]:
        # pickle would call the class with the text alone. Errors must survive being sent by a worker process.
        return _restore, (type(self), self.args), self.__dict__


def _restore(kind: type[NSQError], args: tuple[object, ...]) -> NSQError:
    return kind.__new__(kind, *args)


class InvalidOption(NSQError, ValueError):
    """A value was refused locally; the text names it and the allowed range."""


class InvalidName(InvalidOption):
    """A topic or channel name that nsqd would refuse."""


class InvalidAddress(InvalidOption):
    """An invalid address of an nsqd or nsqlookupd."""


class InvalidBody(InvalidOption):
    """A message body, or a list of them, that nsqd would refuse: empty or too large."""


class InvalidEnvelope(NSQError, ValueError):
    """A message body begins with the magic of an envelope, but cannot be read; the text says why."""


class ConnectionFailed(NSQError):
    """There is no usable connection to ``nsqd``.

    :ivar nsqd: the address, as ``host:port``
    :ivar reason: why, without the address
    """

    def __init__(self, nsqd: str, reason: str) -> None:
        super().__init__(f"nsqd {nsqd}: {reason}")
        self.nsqd = nsqd
        self.reason = reason


class DialFailed(ConnectionFailed):
    """The transport could not be opened: refused, unreachable, unknown host, or too slow."""


class HandshakeFailed(ConnectionFailed):
    """The transport opened, but the peer did not complete the NSQ handshake."""


class TLSFailed(ConnectionFailed):
    """TLS was requested, but nsqd declines it, or one side does not trust the other.

    The error is raised and not retried, since no retry can help. The client does not continue in clear text:
    it has sent only IDENTIFY. Once an nsqd has accepted the options, a failure raises `HandshakeFailed`
    instead, and is retried.
    """


class ConnectionLost(ConnectionFailed):
    """An established connection ended; nsqd delivers the messages in flight on it to other consumers."""


class HeartbeatTimeout(ConnectionLost):
    """nsqd sent nothing for more than two heartbeat intervals."""


class ProtocolError(NSQError):
    """The peer sent bytes that the NSQ protocol does not allow."""


class FrameTooLarge(ProtocolError):
    """A frame announced more bytes than ``max_frame_size`` allows.

    :ivar size: the announced size in bytes
    :ivar limit: the bound that it exceeds, in bytes
    """

    def __init__(self, size: int, limit: int, hint: str = "") -> None:
        remedy = hint or "raise it if such messages are expected"
        super().__init__(f"a frame of {size} bytes exceeds max_frame_size={limit}: {remedy}")
        self.size = size
        self.limit = limit


class ServerError(NSQError):
    """nsqd answered with an error frame.

    :ivar code: the error code, such as ``E_BAD_TOPIC``
    :ivar detail: the text after the code, possibly empty
    :ivar fatal: whether nsqd closes the connection after it
    :ivar nsqd: the address of the nsqd that answered, as ``host:port``; empty if it is not known
    """

    def __init__(self, code: str, detail: str = "", *, fatal: bool = True) -> None:
        super().__init__(f"{code} {detail}".rstrip())
        self.code = code
        self.detail = detail
        self.fatal = fatal
        self.nsqd = ""

    def __str__(self) -> str:
        text = super().__str__()
        return f"nsqd {self.nsqd}: {text}" if self.nsqd else text


class PermanentRefusal(ServerError):
    """nsqd refused for a reason that no retry can change: a bad name, no permission, or refused options."""


class PublishError(NSQError):
    """nsqd did not confirm a message."""


class PublishRejected(PublishError):
    """nsqd refused the message; it was not stored.

    :ivar code: nsqd's error code, such as ``E_BAD_MESSAGE``
    :ivar detail: the text after the code, possibly empty
    """

    def __init__(self, code: str, detail: str = "") -> None:
        super().__init__(f"{code} {detail}".rstrip())
        self.code = code
        self.detail = detail


class NotSent(PublishError):
    """nsqd certainly did not store the message; publishing it again cannot duplicate it."""


class OutcomeUnknown(PublishError):
    """nsqd sent no answer: the message may or may not be stored."""


class FewerCopies(PublishError):
    """At least one nsqd has stored the message, but fewer than ``copies`` have confirmed it.

    Publishing it again with the same ``nsq-id`` header adds copies, and consumers that deduplicate handle the
    message once.

    :ivar stored_by: the addresses of the nsqds that have stored it, each as ``host:port`` or a path
    :ivar wanted: how many should have stored it
    :ivar id: the ``nsq-id`` of the message; None for several messages, each of which has its own
    """

    def __init__(self, stored_by: tuple[str, ...], wanted: int, id: str | None, reason: str) -> None:
        known = "" if id is None else f" (nsq-id {id:.100})"
        super().__init__(f"stored by {', '.join(stored_by)}, not by {wanted} nsqds{known}: {reason}")
        self.stored_by = stored_by
        self.wanted = wanted
        self.id = id


class HTTPError(NSQError):
    """A request to the HTTP API of nsqd or nsqlookupd failed.

    :ivar url: the URL of the request
    :ivar reason: why, without the URL
    """

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"{url}: {reason}")
        self.url = url
        self.reason = reason


class HTTPUnavailable(HTTPError):
    """The server did not answer: it refused the connection, is unreachable, or exceeded the timeout."""


class HTTPStatusError(HTTPError):
    """The server answered with an error status.

    :ivar status: the HTTP status, such as 404
    :ivar code: NSQ's code in the answer, such as ``TOPIC_NOT_FOUND``; empty if there was none
    """

    def __init__(self, url: str, status: int, code: str) -> None:
        super().__init__(url, f"{status} {code}".rstrip())
        self.status = status
        self.code = code


class HTTPInvalidReply(HTTPError):
    """The answer is not valid for this endpoint: not JSON, without required fields, or too large."""


class AlreadyResponded(NSQError, RuntimeError):
    """``finish()`` or ``requeue()`` was called for a message that was already answered."""


class Closed(NSQError, RuntimeError):
    """A consumer or producer was used outside its block, after `close`, or in a forked child."""


class NotEntered(Closed, AttributeError):
    """The block of `consume` or `produce` was used without entering it with ``async with``."""


class WouldDeadlock(NSQError, RuntimeError):
    """A blocking function was called in the thread that must do the work it waits for."""


class DelayFileUnusable(NSQError):
    """The file of delayed messages cannot be used; see `delays`.

    :ivar path: the file
    :ivar reason: why, and what to do
    :ivar temporary: whether it may become usable by itself: its disk is full, or another process holds it
    """

    def __init__(self, path: str, reason: str, *, temporary: bool = False) -> None:
        super().__init__(f"the file of delayed messages {path!r} cannot be used: {reason}")
        self.path: str = path
        self.reason: str = reason
        self.temporary: bool = temporary


class Requeue(NSQError):  # not a failure, but users expect one root
    """Raise it in a handler to requeue the message.

    :param delay: seconds until nsqd offers the message again, 0 or more; None for the consumer's own delay
    :param backoff: whether this counts as a failure that slows the consumer down
    :param reason: why, for the log, the event and the dead letter
    :raises InvalidOption: if the delay is negative or not finite
    """

    def __init__(self, delay: float | None = None, *, backoff: bool = True, reason: str = "") -> None:
        if delay is not None and not (isinstance(delay, int | float) and 0 <= delay < math.inf):
            raise InvalidOption(f"delay={delay!r} is not valid: use 0 or more (seconds)")
        text = "requeue" if delay is None else f"requeue in {delay} s"
        super().__init__(f"{text}: {reason}" if reason else text)
        self.delay = delay
        self.backoff = backoff
        self.reason = reason


class Discard(NSQError):
    """Raise it in a handler to finish a message that cannot be processed.

    :param reason: why, for the log and the event
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
