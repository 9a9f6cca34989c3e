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
serve: Any = nsq.serve
ConsumerOptions: Any = nsq.ConsumerOptions
ConnectionOptions: Any = nsq.ConnectionOptions
TLSOptions: Any = nsq.TLSOptions
BatchHandler: Any = nsq.BatchHandler
Requeue: Any = nsq.Requeue

CONSUME = "the block is not entered: write `async with nsq.consume(...) as consumer:`"
PRODUCE = "the block is not entered: write `async with nsq.produce(...) as producer:`"
CLOSES = ": the end of its `async with` block closes it"
HANDLER = ": write `async def handler(message): ...`, or a plain function, which is called in a thread"
SYNC_HANDLER = (
    ": write `def handler(message): ...`; for async functions, use the run() of `async with nsq.consume(...)`"
)
BATCHES = ": write `async def handler(batch): ...`, or a plain function, which is called in a thread"
MIDDLEWARE = ": decorate an `async def` function that yields once with `@contextlib.asynccontextmanager`"
NAME = ": use 1 to 64 characters of [.a-zA-Z0-9_-], optionally ending in '#ephemeral'"
SERVE = (
    ": write nsq.serve(handler, topic, channel, ...), or nsq.serve({consumer: handler}) for open consumers"
)
DEAD_LETTER = ": use a topic such as '{topic}.dead', or nsq.DeadLetter('{topic}.dead', producer=...)"
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


async def runs(handler: Any, **keywords: Any) -> None:
    async with nsq.embedded.nsqd() as server, consume(nsqd=server.tcp_address) as consumer:
        await consumer.run(handler, **keywords)


def runs_in_threads(handler: Any) -> None:
    with sync_consume(nsqd=NSQD) as consumer:
        consumer.run(handler)


async def closes(make: Callable[[str], Any], method: str) -> None:
    async with nsq.embedded.nsqd() as server, make(server.tcp_address) as opened:
        await getattr(opened, method)()


async def publishes(topic: Any, body: Any = b"body", *, many: bool = False, **keywords: Any) -> None:
    async with nsq.embedded.nsqd() as server, nsq.produce(server.tcp_address) as producer:
        await (producer.publish_many if many else producer.publish)(topic, body, **keywords)


async def publishes_within(middleware: Any) -> None:
    async with (
        nsq.embedded.nsqd() as server,
        nsq.produce(server.tcp_address, middleware=[middleware]) as producer,
    ):
        await producer.publish("clicks", b"body")


async def publishes_after() -> None:
    async with nsq.embedded.nsqd() as server:
        async with nsq.produce(server.tcp_address) as producer:
            pass
        await producer.publish("clicks", b"body")


async def takes_after() -> None:
    async with nsq.embedded.nsqd() as server:
        async with consumer_of(server.tcp_address) as consumer:
            pass
        async for _ in consumer:
            pass


async def serves_embedded(serve: Callable[..., Any], **keywords: Any) -> None:
    async with serve(**keywords):
        pass


async def takes_batches(*sizes: Any) -> None:
    async with nsq.embedded.nsqd() as server, consumer_of(server.tcp_address) as consumer:
        consumer.batches(*sizes)


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


NO_EVENT = threading.Event()

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
    "a handler's concurrency in threads": (
        lambda: sync_consume(nsqd=NSQD, concurrency=3),
        unexpected("consume", "concurrency", "use `consumer.run(handler, threads=...)` in the block"),
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
    # Outside of the block
    "publishing after the block": (
        publishes_after,
        "the producer's block has ended: publish inside `async with nsq.produce(...)`",
    ),
    "taking messages after the block": (
        takes_after,
        "the consumer's block has ended: take messages inside `async with nsq.consume(...)`",
    ),
    "publishing without entering": (
        lambda: produce(NSQD).publish("clicks", b"body"),
        f"'publish' is for use in the block, which is not entered{PRODUCE.partition('entered')[2]}",
    ),
    # Bodies and headers
    "a dict as a body": (
        lambda: publishes("clicks", {"id": 1}),
        "body of type dict is not valid: use str, bytes or memoryview",
    ),
    "several bodies for one": (
        lambda: publishes("clicks", [b"a", b"b"]),
        "body of type list is not valid: use str, bytes or memoryview",
    ),
    "one body for several": (
        lambda: publishes("clicks", b"body", many=True),
        "publish_many takes a sequence of bodies: use publish for one",
    ),
    "no bodies": (
        lambda: publishes("clicks", None, many=True),
        "publish_many takes a sequence of bodies: use publish for one",
    ),
    "body and topic exchanged": (
        lambda: publishes(b"body", "clicks"),
        "topic b'body' is not valid: use a string",
    ),
    "milliseconds to defer": (
        lambda: publishes("clicks", defer=5_000_000),
        (
            "defer=5000000 is not possible here: more than max_defer=3600.0 (seconds) from now needs a "
            "service for delays: run `nsq-anyio delay serve`, and give the producer delays='nsq.delays'"
        ),
    ),
    "a header that is a number": (
        lambda: publishes("clicks", headers={"id": 1}),
        "header id=1 is not valid: use text (str)",
    ),
    "headers as pairs": (
        lambda: publishes("clicks", headers=[("id", "1")]),
        "headers=[('id', '1')] is not valid: use a mapping of names to text",
    ),
    # More names
    "a topic with a slash": (lambda: publishes("a/b"), f"topic 'a/b' is not valid{NAME}"),
    "a template as a topic": (
        lambda: nsq.consume("{topic}.dead", "archive", nsqd=NSQD),
        f"topic '{{topic}}.dead' is not valid{NAME}",
    ),
    "a dead letter's other field": (
        lambda: consume(nsqd=NSQD, dead_letter="{name}.dead"),
        f"topic '{{name}}.dead' is not valid{NAME}",
    ),
    "dead letters to the topic itself": (
        lambda: consume(nsqd=NSQD, dead_letter="clicks"),
        (
            "dead letters of topic 'clicks' would go to that topic itself, and circulate for ever: use a "
            "template such as '{topic}.dead'"
        ),
    ),
    "dead_letter=True": (
        lambda: consume(nsqd=NSQD, dead_letter=True),
        f"dead_letter=True is not valid{DEAD_LETTER}",
    ),
    "a dead letter's address": (
        lambda: nsq.DeadLetter("dead", NSQD),  # type: ignore[arg-type]
        f"producer={NSQD!r} is not valid: use what `async with nsq.produce(...)` yields",
    ),
    # More addresses
    "the URL of nsqd": (
        lambda: produce("http://127.0.0.1:4151"),
        ("nsqd address 'http://127.0.0.1:4151' is a URL: use nsqd's TCP address, such as '127.0.0.1:4150'"),
    ),
    "a host without a port": (
        lambda: produce("localhost"),
        "nsqd address 'localhost' has no valid port: use 'host:port', such as '127.0.0.1:4150'",
    ),
    "an IPv6 address without brackets": (
        lambda: produce("::1:4150"),
        "nsqd address '::1:4150' is ambiguous: put an IPv6 literal in brackets, as in '[::1]:4150'",
    ),
    "a port that is too high": (
        lambda: produce("127.0.0.1:99999"),
        "port 99999 of '127.0.0.1' is not valid: use 1 to 65535",
    ),
    "the address of nsqd for nsqlookupd": (
        lambda: consume(nsqlookupd="nsq://a:4161"),
        f"URL 'nsq://a:4161' is not valid (the scheme is neither http nor https){URL}",
    ),
    "no address": (
        lambda: consume(nsqd=[]),
        "no nsqd address given: name at least one 'host:port'",
    ),
    "neither nsqd nor nsqlookupd": (
        consume,
        "neither of nsqd and nsqlookupd given: name either the nsqds, or the nsqlookupds to ask",
    ),
    "an address to listen on": (
        lambda: serve(print, "t", "c", nsqd=NSQD, http_address=8080),
        "8080 is not an address: use host:port, such as 127.0.0.1:4150",
    ),
    # Numbers and choices
    "a negative max_in_flight": (
        lambda: consume(nsqd=NSQD, max_in_flight=-1),
        "max_in_flight=-1 is not valid: use 0 or more or None",
    ),
    "a number as a limiter": (
        lambda: consume(nsqd=NSQD, limiter=5),
        "limiter=5 is not valid: use an anyio.CapacityLimiter",
    ),
    "too many attempts": (
        lambda: ConsumerOptions(max_attempts=70_000),
        "max_attempts=70000 is not valid: use 0 to 65535",
    ),
    "a strategy of another client": (
        lambda: ConsumerOptions(requeue_strategy="fixed"),
        "requeue_strategy='fixed' is not valid: use 'linear' or 'exponential'",
    ),
    "a share as a sample rate": (
        lambda: ConnectionOptions(sample_rate=0.5),
        "sample_rate=0.5 is not valid: use 0 to 99",
    ),
    "milliseconds of a heartbeat": (
        lambda: asks_for(heartbeat_interval=30_000),
        (
            "E_BAD_BODY IDENTIFY heartbeat interval (30000000) is invalid: heartbeat_interval=30000 "
            "(seconds) is not within nsqd's limits, see its --max-heartbeat-interval"
        ),
    ),
    "two compressions": (
        lambda: ConnectionOptions(snappy=True, deflate=True),
        "snappy=True and deflate=True exclude each other: choose one",
    ),
    "a handler's rate as text": (
        lambda: runs(print, max_per_second="5/s"),
        "max_per_second='5/s' is not valid: use more than 0 (messages per second)",
    ),
    "seconds of keep_alive": (
        lambda: runs(print, keep_alive=5),
        "keep_alive=5 is not valid: use True or False",
    ),
    # TLS
    "TLS by a path": (
        lambda: ConnectionOptions(tls="ca.pem"),
        "tls='ca.pem' is not valid: use True, False, TLSOptions(...) or an ssl.SSLContext",
    ),
    "a missing file of authorities": (
        lambda: produce(NSQD, connection=ConnectionOptions(tls=TLSOptions(ca_file="/no/ca.pem"))),
        (
            "ca_file='/no/ca.pem' cannot be read (No such file or directory): use the path of a readable PEM "
            "file"
        ),
    ),
    "authorities that are not PEM": (
        lambda: produce(NSQD, connection=ConnectionOptions(tls=TLSOptions(ca_file=__file__))),
        f"ca_file={__file__!r} holds no valid certificate: use a file in PEM format",
    ),
    "a key alone": (
        lambda: TLSOptions(private_key_file="key.pem"),
        ("a private key without a certificate is of no use: set TLSOptions(certificate_file=...) as well"),
    ),
    "a version of TLS": (
        lambda: TLSOptions(minimum_version="1.2"),
        "minimum_version='1.2' is not valid: use 'TLSv1.2' or 'TLSv1.3'",
    ),
    # Answers, batches, middleware
    "a reason as a delay": (
        lambda: Requeue("database down"),
        "delay='database down' is not valid: use 0 or more (seconds)",
    ),
    "a negative delay": (lambda: Requeue(-1), "delay=-1 is not valid: use 0 or more (seconds)"),
    "a batch handler's arguments exchanged": (
        lambda: BatchHandler(10, print),
        f"handler=10 is not valid, it is not callable{BATCHES}",
    ),
    "a batch of none": (lambda: BatchHandler(print, 0), "max_size=0 is not valid: use 1 or more"),
    "a rate of batches": (
        lambda: runs(BatchHandler(print, 10), max_per_second=5),
        ("max_per_second=5 is not valid with a BatchHandler: it limits handlers of single messages"),
    ),
    "the wait for a batch as text": (
        lambda: takes_batches(10, "1"),
        "max_wait='1' is not valid: use 0 or more (seconds)",
    ),
    "the middleware itself": (
        lambda: consume(nsqd=NSQD, middleware=plain_none),
        f"middleware={plain_none!r} is not valid: use a sequence of callables, such as [middleware]",
    ),
    "async middleware": (
        lambda: produce(NSQD, middleware=[async_hook]),
        f"middleware[0]={async_hook!r} is not valid, it returns no context manager{MIDDLEWARE}",
    ),
    "middleware that returns nothing": (
        lambda: publishes_within(print),
        (
            f"middleware={print!r} is not valid, it returned NoneType, which is no async context "
            f"manager{MIDDLEWARE}"
        ),
    ),
    # Services
    "serve() without a topic": (lambda: serve(print, nsqd=NSQD), f"no topic given{SERVE}"),
    "serve() without a channel": (lambda: serve(print, "t", nsqd=NSQD), f"no channel given{SERVE}"),
    "serve() of topics by name": (
        lambda: serve({"clicks": print}),
        "'clicks' is not an open consumer: write `async with nsq.consume(...) as consumer:`",
    ),
    "serve() of nothing": (
        lambda: serve({}),
        "there is nothing to serve: name at least one topic or consumer",
    ),
    "an event of threads": (
        lambda: serve(print, "t", "c", nsqd=NSQD, stop=NO_EVENT),
        f"stop={NO_EVENT!r} is not valid: use an anyio.Event",
    ),
    # The embedded servers
    "embedded options as a dict": (
        lambda: serves_embedded(nsq.embedded.nsqd, options={"max_msg_size": 5}),
        "options is of type dict: use nsq.embedded.NsqdOptions(...)",
    ),
    "embedded options of nsqd for nsqlookupd": (
        lambda: serves_embedded(nsq.embedded.nsqlookupd, options=nsq.embedded.NsqdOptions()),
        "options is of type NsqdOptions: use nsq.embedded.NsqlookupdOptions(...)",
    ),
    "an embedded port as text": (
        lambda: serves_embedded(nsq.embedded.nsqd, tcp_port="4150"),
        "port '4150' is not valid: use 0 to 65535 (0 takes a free one)",
    ),
    "an embedded limit": (
        lambda: nsq.embedded.NsqdOptions(msg_timeout=60_000),
        "msg_timeout=60000 is not valid: use at most max_msg_timeout=900.0 (seconds)",
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
