"""What a newcomer gets wrong: each mistake fails with one sentence that names the value and the remedy."""

from __future__ import annotations

import functools
import re
import ssl
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest

import nsq_anyio as nsq

from .tls_files import TLSFiles

pytestmark = pytest.mark.anyio

NSQD = "127.0.0.1:4150"
produce: Any = nsq.produce
consume: Any = functools.partial(nsq.consume, "clicks", "archive")
sync_consume: Any = functools.partial(nsq.sync.consume, "clicks", "archive")
sync_produce: Any = nsq.sync.produce
ConsumerOptions: Any = nsq.ConsumerOptions

CONSUME = "the block is not entered: write `async with nsq.consume(...) as consumer:`"
PRODUCE = "the block is not entered: write `async with nsq.produce(...) as producer:`"
CLOSES = ": the end of its `async with` block closes it"
HANDLER = ": write `async def handler(message): ...`, or a plain function, which is called in a thread"
SYNC_HANDLER = (
    ": write `def handler(message): ...`; for async functions, use the run() of `async with nsq.consume(...)`"
)
ADDRESS = ": use 'host:port'"
URL = ": use 'http://host:port', 'https://host:port', 'host:port' or '/path/of/a/unix/socket'"


async def no_message() -> None: ...


async def two_messages(a: object, b: object) -> None: ...


def plain_none() -> None: ...


async def async_hook(event: object) -> None: ...


class Handler:
    """Has a method that forgets the message."""

    async def handle(self) -> None:
        """Handle nothing."""

    def __repr__(self) -> str:
        return "<Handler>"


class NoProducer:
    """Publishes in the event loop of its caller."""

    async def publish(self, topic: str, body: bytes, /, *, headers: object) -> None:
        """Publish nothing."""

    def __repr__(self) -> str:
        return "<NoProducer>"


class AsyncHook:
    """Is async when it is called."""

    async def __call__(self, event: object) -> None:
        """Ignore the event."""

    def __repr__(self) -> str:
        return "<AsyncHook>"


async def awaits(block: Any) -> None:
    await block


def enters(block: Any) -> None:
    with block:
        pass


async def reads_plainly(block: Any) -> None:
    for _ in block:
        pass


async def enters_twice(make: Callable[[str], Any]) -> None:
    async with nsq.embedded.nsqd() as server:
        block = make(server.tcp_address)
        async with block:
            pass
        async with block:
            pass


async def runs(handler: Any) -> None:
    async with nsq.embedded.nsqd() as server, consume(nsqd=server.tcp_address) as consumer:
        await consumer.run(handler)


def runs_in_threads(handler: Any) -> None:
    with sync_consume(nsqd=NSQD) as consumer:
        consumer.run(handler)


async def closes(make: Callable[[str], Any], method: str) -> None:
    async with nsq.embedded.nsqd() as server, make(server.tcp_address) as opened:
        await getattr(opened, method)()


async def publishes(topic: Any) -> None:
    async with nsq.embedded.nsqd() as server, nsq.produce(server.tcp_address) as producer:
        await producer.publish(topic, b"body")


async def asks_for(**options: Any) -> None:
    async with (
        nsq.embedded.nsqd() as server,
        nsq.consume(
            "clicks", "archive", nsqd=server.tcp_address, connection=nsq.ConnectionOptions(**options)
        ),
    ):
        await anyio.sleep_forever()


def consumer_of(address: str) -> Any:
    return consume(nsqd=address)


Mistake = Callable[[], Awaitable[object] | object]


def unexpected(function: str, name: str, remedy: str) -> str:
    return f"{function}() got an unexpected keyword argument {name!r}: {remedy}"


MISTAKES: dict[str, tuple[Mistake, str]] = {
    # Blocks
    "a consumer's block twice": (
        lambda: enters_twice(consumer_of),
        (
            "this block of 'Consumer' was entered before: make another one for each `async "
            "with nsq.consume(...) as consumer:`"
        ),
    ),
    "a producer's block twice": (
        lambda: enters_twice(produce),
        (
            "this block of 'Producer' was entered before: make another one for each `async "
            "with nsq.produce(...) as producer:`"
        ),
    ),
    "await produce()": (lambda: awaits(produce(NSQD)), PRODUCE),
    "await consume()": (lambda: awaits(consumer_of(NSQD)), CONSUME),
    "with produce()": (lambda: enters(produce(NSQD)), PRODUCE),
    "with consume()": (lambda: enters(consumer_of(NSQD)), CONSUME),
    "for in consume()": (lambda: reads_plainly(consumer_of(NSQD)), CONSUME),
    "close() of a block": (lambda: produce(NSQD).close(), f"'Block' object has no attribute 'close'{CLOSES}"),
    "close() of a producer": (
        lambda: closes(produce, "close"),
        f"'Producer' object has no attribute 'close'{CLOSES}",
    ),
    "aclose() of a consumer": (
        lambda: closes(consumer_of, "aclose"),
        f"'Consumer' object has no attribute 'aclose'{CLOSES}",
    ),
    # Options
    "options as a dict": (
        lambda: consume(nsqd=NSQD, options={"max_attempts": 3}),
        "options is of type dict: use nsq.ConsumerOptions(...)",
    ),
    "an empty dict": (
        lambda: sync_produce(NSQD, options={}),
        "options is of type dict: use nsq.ProducerOptions(...)",
    ),
    "options of the other side": (
        lambda: produce(NSQD, options=nsq.ConsumerOptions()),
        "options is of type ConsumerOptions: use nsq.ProducerOptions(...)",
    ),
    "connection options as options": (
        lambda: sync_consume(nsqd=NSQD, options=nsq.ConnectionOptions()),
        "options is of type ConnectionOptions: use nsq.ConsumerOptions(...)",
    ),
    "TLS options as connection": (
        lambda: produce(NSQD, connection=nsq.TLSOptions()),
        "connection is of type TLSOptions: use nsq.ConnectionOptions(...)",
    ),
    "the class of the options": (
        lambda: consume(nsqd=NSQD, connection=nsq.ConnectionOptions),
        "connection is the class ConnectionOptions: use nsq.ConnectionOptions(...)",
    ),
    "an option of the connection": (
        lambda: ConsumerOptions(msg_timeout=60),
        unexpected("ConsumerOptions", "msg_timeout", "use nsq.ConnectionOptions(msg_timeout=...)"),
    ),
    "a parameter among the options": (
        lambda: ConsumerOptions(max_in_flight=5),
        unexpected("ConsumerOptions", "max_in_flight", "use nsq.consume(max_in_flight=...)"),
    ),
    "a misspelt option": (
        lambda: ConsumerOptions(max_atempts=5),
        unexpected("ConsumerOptions", "max_atempts", "did you mean max_attempts=...?"),
    ),
    "a misspelt parameter": (
        lambda: consume(nsqdlookupd="http://127.0.0.1:4161"),
        unexpected("consume", "nsqdlookupd", "did you mean nsqlookupd=...?"),
    ),
    "a misspelt option as a parameter": (
        lambda: consume(nsqd=NSQD, max_atempts=5),
        unexpected("consume", "max_atempts", "did you mean options=nsq.ConsumerOptions(max_attempts=...)?"),
    ),
    "a misspelt parameter of serve()": (
        lambda: nsq.serve(print, "t", "c", nsqd=NSQD, concurency=3),  # type: ignore[call-arg]
        unexpected("serve", "concurency", "did you mean concurrency=...?"),
    ),
    "milliseconds": (
        lambda: asks_for(msg_timeout=60000),
        (
            "E_BAD_BODY IDENTIFY msg timeout (60000000) is invalid: msg_timeout=60000 (seconds) is not "
            "within nsqd's limits, see its --max-msg-timeout"
        ),
    ),
    "a large buffer": (
        lambda: asks_for(output_buffer_size=1_000_000),
        (
            "E_BAD_BODY IDENTIFY output buffer size (1000000) is invalid: output_buffer_size=1000000 (bytes) "
            "is not within nsqd's limits, see its --max-output-buffer-size"
        ),
    ),
    "a dead letter's producer in threads": (
        lambda: sync_consume(nsqd=NSQD, dead_letter=nsq.DeadLetter("dead", NoProducer())),
        (
            "dead_letter=DeadLetter(topic='dead', producer=<NoProducer>) is not valid: use a topic such as "
            "'{topic}.dead'"
        ),
    ),
    # Addresses
    "several nsqds in one text": (
        lambda: produce("a:4150,b:4150"),
        "nsqd address 'a:4150,b:4150' is more than one: give each by itself, 'a:4150' and 'b:4150'",
    ),
    "several nsqds with spaces": (
        lambda: consume(nsqd=["a:4150, b:4150 c:4150"]),
        (
            "nsqd address 'a:4150, b:4150 c:4150' is more than one: give each by itself, 'a:4150' and "
            "'b:4150' and 'c:4150'"
        ),
    ),
    "several nsqlookupds in one text": (
        lambda: produce(nsqlookupd="http://a:4161,http://b:4161"),
        f"URL 'http://a:4161,http://b:4161' is not valid (if it is several, give each by itself){URL}",
    ),
    "a port": (lambda: produce(4150), f"nsqd address 4150 is not a string{ADDRESS}"),
    "an address in bytes": (lambda: produce(b"a:1"), f"nsqd address b'a:1' is not a string{ADDRESS}"),
    "a port of nsqlookupd": (lambda: consume(nsqlookupd=4161), f"a URL of type int is not valid{URL}"),
    # Names
    "a topic in bytes": (
        lambda: nsq.consume(b"clicks", "archive", nsqd=NSQD),  # type: ignore[arg-type]
        "topic b'clicks' is not valid: use a string",
    ),
    "a channel in bytes": (
        lambda: nsq.consume("clicks", b"archive", nsqd=NSQD),  # type: ignore[arg-type]
        "channel b'archive' is not valid: use a string",
    ),
    "publishing to a topic in bytes": (
        lambda: publishes(b"clicks"),
        "topic b'clicks' is not valid: use a string",
    ),
    "several topics": (
        lambda: nsq.consume(["a", "b"], "archive", nsqd=NSQD),  # type: ignore[arg-type]
        "topic ['a', 'b'] is not valid: use a string",
    ),
    # Functions
    "a handler without a message": (
        lambda: runs(no_message),
        f"handler={no_message!r} is not valid, it takes (){HANDLER}",
    ),
    "a handler of two": (
        lambda: runs(functools.partial(two_messages)),
        (f"handler={functools.partial(two_messages)!r} is not valid, it takes (a, b){HANDLER}"),
    ),
    "a plain handler without a message": (
        lambda: runs(plain_none),
        f"handler={plain_none!r} is not valid, it takes (){HANDLER}",
    ),
    "a method without a message": (
        lambda: runs(Handler().handle),
        f"handler=<bound method Handler.handle of <Handler>> is not valid, it takes (){HANDLER}",
    ),
    "a handler of serve()": (
        lambda: nsq.serve(no_message, "t", "c", nsqd=NSQD),  # type: ignore[arg-type]
        f"handler={no_message!r} is not valid, it takes (){HANDLER}",
    ),
    "a handler in threads": (
        lambda: runs_in_threads(plain_none),
        f"handler={plain_none!r} is not valid, it takes (){SYNC_HANDLER}",
    ),
    "an async hook": (
        lambda: consume(nsqd=NSQD, on_event=async_hook),
        f"on_event={async_hook!r} is not valid, it is async: use a plain function of one event",
    ),
    "an async object as a hook": (
        lambda: produce(NSQD, on_event=AsyncHook()),
        "on_event=<AsyncHook> is not valid, it is async: use a plain function of one event",
    ),
    "a hook without an event": (
        lambda: produce(NSQD, on_event=plain_none),
        f"on_event={plain_none!r} is not valid, it takes (): use a plain function of one event",
    ),
    "a hook that is none": (
        lambda: produce(NSQD, on_event=5),
        "on_event=5 is not valid, it is not callable: use a plain function of one event",
    ),
    "on_give_up without a message": (
        lambda: consume(nsqd=NSQD, on_give_up=no_message),
        f"on_give_up={no_message!r} is not valid, it takes (): use a plain or async function of one message",
    ),
}


@pytest.mark.parametrize(("mistake", "text"), MISTAKES.values(), ids=MISTAKES)
async def test_the_error_names_the_value_and_the_remedy(mistake: Mistake, text: str) -> None:
    with pytest.raises((nsq.NSQError, TypeError, AttributeError)) as caught, anyio.fail_after(10):
        result = mistake()
        if isinstance(result, Awaitable):
            await result
    shown = str(caught.value)
    assert shown.partition(": ")[2] == text if isinstance(caught.value, nsq.ServerError) else shown == text


async def test_serve_in_a_thread(anyio_backend_name: str) -> None:
    errors: list[nsq.InvalidOption] = []

    def work() -> None:
        try:
            anyio.run(functools.partial(nsq.serve, print, "t", "c", nsqd=NSQD), backend=anyio_backend_name)
        except nsq.InvalidOption as error:
            errors.append(error)

    thread = threading.Thread(target=work, name="worker")
    thread.start()
    await anyio.to_thread.run_sync(thread.join)
    (error,) = errors
    assert str(error) == (
        "handle_signals=True is not valid in the thread 'worker': use handle_signals=False and `stop` there, "
        "or the main thread"
    )


@pytest.mark.parametrize(
    ("version", "wants"),
    [
        (ssl.TLSVersion.TLSv1_3, "^it wants this"),
        (
            ssl.TLSVersion.TLSv1_2,
            r"^it broke .* off \(\w+HANDSHAKE_FAILURE\). Perhaps it wants this",
        ),
    ],
)
async def test_without_a_certificate_that_nsqd_requires(
    tls_files: TLSFiles, version: ssl.TLSVersion, wants: str
) -> None:
    server_options = {
        "tls_cert": tls_files.server.certificate_file,
        "tls_key": tls_files.server.private_key_file,
        "tls_root_ca_file": tls_files.ca_file,
        "tls_client_auth_policy": "require-verify",
    }
    context = ssl.create_default_context(cafile=tls_files.ca_file)
    context.maximum_version = version
    async with nsq.embedded.nsqd(options=nsq.embedded.NsqdOptions(**server_options)) as server:  # type: ignore[arg-type]
        with pytest.raises(nsq.TLSFailed) as caught, anyio.fail_after(10):
            async with nsq.produce(
                server.tcp_address, connection=nsq.ConnectionOptions(tls=context)
            ) as producer:
                await producer.publish("clicks", b"body")
    own = " client's certificate: set TLSOptions(certificate_file=..., private_key_file=...)"
    assert re.search(wants + re.escape(own) + "$", caught.value.reason)


def test_what_a_check_cannot_look_into_is_accepted() -> None:
    """Functions that tell no signature, wrappers of other signatures, and annotations without a meaning."""

    @functools.wraps(two_messages)
    async def injects(message: object) -> None: ...

    def annotated(message: no_such_type) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    seen: list[object] = []
    hooks: list[Any] = [max, dict, injects, annotated, seen.append]
    for hook in hooks:
        consume(nsqd=NSQD, on_give_up=hook)
