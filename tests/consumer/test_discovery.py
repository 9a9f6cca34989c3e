"""Finding nsqds by nsqlookupds that agree, disagree, fail and lie."""

import logging
import random
import re
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import anyio
import pytest
from anyio.abc import ByteStream

import nsq_anyio as nsq
from nsq_anyio.consumer.topic_discovery import TopicDiscovery
from nsq_anyio.discovery import Discovery
from nsq_anyio.events import ConnectFailed, Emitter, LookupDone, LookupFailed
from nsq_anyio.options import AuthSecret

from ..fake_nsqd import LIMIT, Events, FakeNsqd, client_tasks, fake_nsqd, fake_nsqds, serve, until
from ..http.support import read_head, tcp_server, tls_server
from ..tls_files import KeyPair, TLSFiles, tls_files
from .fake_lookupd import UNKNOWN_TOPIC, FakeLookupd, addresses, at, connected, fake_lookupd, polled, producer

__all__ = ["tls_files"]

pytestmark = pytest.mark.anyio

POLLING = nsq.ConsumerOptions(lookupd_poll_interval=0.02, lookupd_poll_timeout=1)
NOT_AGAIN = nsq.ConsumerOptions(lookupd_poll_interval=60)


# What they say.


async def test_it_asks_for_the_topic_and_connects_where_it_is_told() -> None:
    events = Events()
    async with fake_nsqd(serve) as nsqd, fake_lookupd(nsqd) as lookupd:
        async with nsq.consume("t", "c", nsqlookupd=lookupd.url, on_event=events) as consumer:
            await connected(consumer, nsqd)
            id = await nsqd.connections[0].message()
            (await anext(consumer)).finish()
            await nsqd.connections[0].saw(b"FIN " + id)
        assert lookupd.requests == ["GET /lookup?topic=t HTTP/1.1"]
        assert [event.nsqds for event in events.of(LookupDone)] == [(nsqd.address,)]
        assert client_tasks() == []


async def test_the_answers_are_united_by_address() -> None:
    async with (
        fake_nsqds(3) as (one, two, three),
        fake_lookupd(one, two) as first,
        fake_lookupd(two, three) as second,
        nsq.consume("t", "c", nsqlookupd=at(first, second), options=POLLING) as consumer,
    ):
        await connected(consumer, one, two, three)
        await polled(first, 3)
        assert [len(nsqd.connections) for nsqd in (one, two, three)] == [1, 1, 1]


async def test_they_are_asked_in_parallel_and_none_waits_for_a_slow_one() -> None:
    async with fake_nsqds(2) as (one, two), fake_lookupd(one) as slow, fake_lookupd(two) as quick:
        slow.gate = anyio.Event()
        async with nsq.consume("t", "c", nsqlookupd=at(slow, quick), options=NOT_AGAIN) as consumer:
            await connected(consumer, two)
            assert len(slow.requests) == 1
            slow.gate.set()
            await connected(consumer, one, two)


async def test_one_that_dies_keeps_its_last_answer() -> None:
    events = Events()
    async with (
        fake_nsqds(2) as (one, two),
        fake_lookupd(one) as dying,
        fake_lookupd(two) as living,
        nsq.consume("t", "c", nsqlookupd=at(dying, living), options=POLLING, on_event=events) as consumer,
    ):
        await connected(consumer, one, two)
        dying.says({}, status=500)
        await polled(dying, 2)
        assert sorted(consumer.connections) == addresses(one, two)
        assert events.of(LookupFailed)
        # Should the connection break now, its last answer is still good to reconnect.
        await one.connections[0].close()
        await one.subscribed(1)
        await connected(consumer, one, two)


async def test_an_nsqd_that_is_found_later_is_connected_then() -> None:
    async with (
        fake_nsqds(2) as (one, two),
        fake_lookupd(one) as lookupd,
        nsq.consume("t", "c", nsqlookupd=lookupd.url, options=POLLING) as consumer,
    ):
        await connected(consumer, one)
        lookupd.names(one, two)
        await connected(consumer, one, two)


async def test_an_nsqd_that_is_not_listed_any_more_keeps_its_connection() -> None:
    async with (
        fake_nsqd(serve) as nsqd,
        fake_lookupd(nsqd) as lookupd,
        nsq.consume("t", "c", nsqlookupd=lookupd.url, options=POLLING) as consumer,
    ):
        await connected(consumer, nsqd)
        lookupd.names()
        await polled(lookupd, 3)
        await connected(consumer, nsqd)


async def test_a_topic_that_is_not_known_yet_is_no_failure() -> None:
    events = Events()
    async with fake_nsqd(serve) as nsqd, fake_lookupd() as lookupd:
        lookupd.says(UNKNOWN_TOPIC, status=404)
        async with nsq.consume(
            "t", "c", nsqlookupd=lookupd.url, options=POLLING, on_event=events
        ) as consumer:
            await polled(lookupd, 2)
            await until(lambda: events)
            assert {(type(event), event.nsqds) for event in events.of(LookupDone)} == {(LookupDone, ())}
            assert events.of(LookupFailed) == []
            lookupd.names(nsqd)
            await connected(consumer, nsqd)


# Garbage.


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, b""),
        (200, b"<html>"),
        (200, b"[]"),
        (200, b"null"),
        (200, b'{"producers": 7}'),
        (200, b'{"channels": []}'),
        (200, b"[" * 5000),
        (200, b'{"producers": [], "channels": [1' + b"0" * 5000 + b"]}"),
        (404, b"not found"),
        (500, b'{"message": "INTERNAL_ERROR"}'),
        (302, b""),
    ],
)
async def test_an_answer_that_makes_no_sense_is_an_event_and_disturbs_nothing_else(
    status: int, body: bytes
) -> None:
    events = Events()
    async with fake_nsqd(serve) as nsqd, fake_lookupd() as bad, fake_lookupd(nsqd) as good:
        bad.status, bad.body = status, body
        async with nsq.consume(
            "t", "c", nsqlookupd=at(bad, good), options=POLLING, on_event=events
        ) as consumer:
            await connected(consumer, nsqd)
            await polled(bad, 2)
            await until(lambda: events.of(LookupFailed))
            assert {event.nsqlookupd for event in events.of(LookupFailed)} == {bad.url}
            await connected(consumer, nsqd)


async def test_nobody_listens_at_one_of_the_urls() -> None:
    events = Events()
    async with fake_nsqd(serve) as nsqd, fake_lookupd(nsqd) as lookupd:
        urls = ["http://127.0.0.1:1", lookupd.url]
        async with nsq.consume("t", "c", nsqlookupd=urls, options=NOT_AGAIN, on_event=events) as consumer:
            await connected(consumer, nsqd)
            await until(lambda: events.of(LookupFailed))
    assert isinstance(events.of(LookupFailed)[0].error, nsq.HTTPUnavailable)


async def test_one_that_does_not_answer_in_time_is_a_failure() -> None:
    events = Events()
    options = nsq.ConsumerOptions(lookupd_poll_timeout=0.03)
    async with fake_lookupd() as lookupd:
        lookupd.gate = anyio.Event()
        async with nsq.consume("t", "c", nsqlookupd=lookupd.url, options=options, on_event=events):
            await until(lambda: events.of(LookupFailed))
    assert isinstance(events.of(LookupFailed)[0].error, nsq.HTTPUnavailable)


@pytest.mark.parametrize(
    "hostile",
    [
        {"broadcast_address": "127.0.0.1", "tcp_port": 0},
        {"broadcast_address": "127.0.0.1", "tcp_port": -1},
        {"broadcast_address": "127.0.0.1", "tcp_port": 65536},
        {"broadcast_address": "127.0.0.1", "tcp_port": "4150"},
        {"broadcast_address": "127.0.0.1", "tcp_port": 4150.5},
        {"broadcast_address": "127.0.0.1", "tcp_port": True},
        {"broadcast_address": "", "tcp_port": 4150},
        {"broadcast_address": "a b", "tcp_port": 4150},
        {"broadcast_address": "a\nFIN", "tcp_port": 4150},
        {"broadcast_address": "\ud800", "tcp_port": 0},
        {"broadcast_address": "x" * 300, "tcp_port": 4150},
        {"broadcast_address": None, "tcp_port": None},
        {},
        "nonsense",
        None,
    ],
)
async def test_a_producer_that_is_nonsense_does_not_hide_the_others(hostile: Any) -> None:
    events = Events()
    async with fake_nsqd(serve) as nsqd, fake_lookupd() as lookupd:
        lookupd.says({"channels": [], "producers": [hostile, producer(nsqd.address)]})
        async with nsq.consume(
            "t", "c", nsqlookupd=lookupd.url, options=NOT_AGAIN, on_event=events
        ) as consumer:
            await connected(consumer, nsqd)
            (failed,) = events.of(LookupFailed)
            assert isinstance(failed.error, nsq.InvalidAddress)


async def test_an_ipv6_broadcast_address_gets_its_brackets() -> None:
    events = Events()
    async with fake_lookupd() as lookupd:
        lookupd.says({"channels": [], "producers": [{"broadcast_address": "::1", "tcp_port": 1}]})
        async with nsq.consume("t", "c", nsqlookupd=lookupd.url, options=NOT_AGAIN, on_event=events):
            await until(lambda: events.of(ConnectFailed))
    assert events.of(LookupDone)[0].nsqds == ("[::1]:1",)
    assert events.of(ConnectFailed)[0].nsqd == "[::1]:1"
    assert isinstance(events.of(ConnectFailed)[0].error, nsq.DialFailed)


# When they are asked.


async def test_a_lost_nsqd_that_is_not_listed_any_more_is_left_alone_until_it_is() -> None:
    async with (
        fake_nsqd(serve) as nsqd,
        fake_lookupd(nsqd) as lookupd,
        nsq.consume("t", "c", nsqlookupd=lookupd.url, options=POLLING) as consumer,
    ):
        await connected(consumer, nsqd)
        lookupd.says(UNKNOWN_TOPIC, status=404)
        await polled(lookupd, 2)
        await nsqd.connections[0].close()
        await polled(lookupd, 4)
        assert len(nsqd.connections) == 1
        lookupd.names(nsqd)
        await nsqd.subscribed(1)


async def test_an_nsqd_that_cannot_be_reached_is_tried_again_after_the_next_poll() -> None:
    events = Events()
    options = nsq.ConsumerOptions(lookupd_poll_interval=0.02, reconnect_delay=0.02, max_reconnect_delay=0.02)
    async with fake_lookupd() as lookupd:
        lookupd.says({"channels": [], "producers": [producer("127.0.0.1:1")]})
        async with nsq.consume("t", "c", nsqlookupd=lookupd.url, options=options, on_event=events):
            await until(lambda: len(events.of(ConnectFailed)) >= 3)
        assert len(lookupd.requests) >= 3
    assert all(0.01 <= (event.retry_in or 0) <= 0.02 for event in events.of(ConnectFailed))


@pytest.mark.parametrize(("place", "interval"), [(-1.0, 0.05), (0.0, 0.1), (1.0, 0.15)])
async def test_polls_are_spread_over_the_jitter(
    place: float, interval: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def uniform(_rng: random.Random, _low: float, _high: float) -> float:
        return place

    monkeypatch.setattr(random.Random, "uniform", uniform)
    options = nsq.ConsumerOptions(lookupd_poll_interval=0.1, lookupd_poll_jitter=0.5)
    async with fake_lookupd() as lookupd:
        async with nsq.consume("t", "c", nsqlookupd=lookupd.url, options=options):
            await polled(lookupd, 8)  # a busy machine makes some pauses longer
        pauses = [later - earlier for earlier, later in zip(lookupd.times, lookupd.times[1:], strict=False)]
    assert min(pauses) >= interval - 0.01
    assert min(pauses) < interval + 0.04


# Trust, in both directions.


@dataclass
class StrictLookupd(FakeLookupd):
    """One that is asked over TLS, or for authorization.

    :ivar authorizations: what it was sent
    :ivar location: where it redirects to
    """

    authorizations: list[str] = field(default_factory=list[str])
    location: str = ""

    async def handle(self, stream: ByteStream) -> None:
        request = (await read_head(stream)).decode("latin-1")
        self.requests.append(request.partition("\r\n")[0])
        found = re.search(r"^Authorization: (.*)\r$", request, re.MULTILINE)
        self.authorizations.append(found[1] if found else "")
        head = f"HTTP/1.1 {self.status} X\r\nContent-Length: {len(self.body)}\r\nConnection: close\r\n"
        location = f"Location: {self.location}\r\n" if self.location else ""
        await stream.send(f"{head}{location}\r\n".encode() + self.body)


@asynccontextmanager
async def strict_lookupd(
    *nsqds: FakeNsqd, pair: KeyPair | None = None, client_ca_file: str | None = None
) -> AsyncGenerator[StrictLookupd]:
    """It is asked over TLS if it has a certificate, and wants one itself if it knows an authority."""
    lookupd = StrictLookupd()
    lookupd.names(*nsqds)
    if pair is None:
        async with tcp_server(lookupd.handle) as address:
            lookupd.url = f"http://{address}"
            yield lookupd
            return
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=client_ca_file)
    context.load_cert_chain(pair.certificate_file, pair.private_key_file)
    context.verify_mode = ssl.CERT_REQUIRED if client_ca_file else ssl.CERT_NONE
    async with tls_server(lookupd.handle, context) as address:
        lookupd.url = f"https://{address}"
        yield lookupd


def lookup(lookupd: FakeLookupd, events: Events, **options: Any) -> Discovery:
    secret = options.pop("auth_secret", None)
    polling = nsq.ConsumerOptions(lookupd_poll_interval=0.02, lookupd_poll_timeout=1, **options)
    return TopicDiscovery(
        "t",
        [lookupd.url],
        options=polling,
        emit=Emitter("nsq_anyio.consumer", events),
        auth_secret=secret,
    )


@asynccontextmanager
async def polling(finder: Discovery) -> AsyncGenerator[None]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(finder.run, lambda: None, lambda: None, lambda: False)
        yield
        tasks.cancel_scope.cancel()


async def async_secret() -> bytes:
    return b"s3cret"


@pytest.mark.parametrize("secret", ["s3cret", b"s3cret", lambda: "s3cret", async_secret])
async def test_the_secret_is_sent_when_that_is_asked_for(secret: AuthSecret) -> None:
    async with strict_lookupd() as lookupd:
        events = Events()
        async with polling(lookup(lookupd, events, lookupd_authorization=True, auth_secret=secret)):
            await until(lambda: events.of(LookupDone))
        assert lookupd.authorizations[0] == "Bearer s3cret"


async def test_the_secret_is_not_sent_without_that() -> None:
    async with strict_lookupd() as lookupd:
        events = Events()
        async with polling(lookup(lookupd, events, auth_secret="s3cret")):
            await until(lambda: events.of(LookupDone))
        assert lookupd.authorizations[0] == ""


async def test_the_secret_is_asked_for_at_each_poll() -> None:
    numbers = count(1)
    async with strict_lookupd() as lookupd:
        finder = lookup(
            lookupd, Events(), lookupd_authorization=True, auth_secret=lambda: f"s3cret-{next(numbers)}"
        )
        async with polling(finder):
            await until(lambda: len(lookupd.authorizations) >= 3)
        assert lookupd.authorizations[:3] == ["Bearer s3cret-1", "Bearer s3cret-2", "Bearer s3cret-3"]


def failing_secret() -> str:
    raise RuntimeError("s3cret")


@pytest.mark.parametrize(
    ("secret", "reason"),
    [
        (failing_secret, "not asked: the function auth_secret raised RuntimeError"),
        (lambda: None, "not asked: the function auth_secret returned NoneType"),
        (lambda: "s3cret\r\nX: y", "not asked: the header Authorization must be printable ASCII"),
        ("s3cret-\u00fc", "not asked: the header Authorization must be printable ASCII"),
        (b"s3cret-\xff", "not asked: the header Authorization must be printable ASCII"),
    ],
)
async def test_a_secret_that_cannot_be_sent_is_a_failure_and_not_shown(
    secret: Any, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    events = Events()
    async with strict_lookupd() as lookupd:
        async with polling(lookup(lookupd, events, lookupd_authorization=True, auth_secret=secret)):
            await until(lambda: len(events.of(LookupFailed)) >= 2)  # and it goes on
        assert lookupd.requests == []
        failed = events.of(LookupFailed)[0]
        assert failed.nsqlookupd == lookupd.url
        assert reason in str(failed)
        assert "s3cret" not in str(failed) + repr(failed) + caplog.text


async def test_a_refusal_and_a_redirect_show_no_secret_and_pass_none_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    events = Events()
    async with strict_lookupd() as elsewhere, strict_lookupd() as lookupd:
        lookupd.status = 307
        lookupd.location = f"{elsewhere.url}/lookup?topic=t"
        finder = lookup(lookupd, events, lookupd_authorization=True, auth_secret="s3cret")
        async with polling(finder):
            await until(lambda: len(events.of(LookupFailed)) >= 2)
        assert lookupd.authorizations[0] == "Bearer s3cret"
        assert elsewhere.requests == []
    texts = [caplog.text, repr(finder.__dict__), *map(repr, events), *map(str, events)]
    assert [text for text in texts if "s3cret" in text] == []


def test_to_send_a_secret_there_must_be_one() -> None:
    with pytest.raises(nsq.InvalidOption, match="auth_secret"):
        lookup(FakeLookupd(url="http://127.0.0.1:1"), Events(), lookupd_authorization=True)


async def test_an_https_nsqlookupd_finds_nsqds(tls_files: TLSFiles) -> None:
    options = nsq.ConsumerOptions(lookupd_tls=nsq.TLSOptions(ca_file=tls_files.ca_file))
    async with (
        fake_nsqd(serve) as nsqd,
        strict_lookupd(nsqd, pair=tls_files.server) as lookupd,
        nsq.consume("t", "c", nsqlookupd=lookupd.url, options=options) as consumer,
    ):
        await connected(consumer, nsqd)


async def test_how_https_nsqlookupds_are_verified(tls_files: TLSFiles) -> None:
    context = ssl.create_default_context(cafile=tls_files.ca_file)
    ca_file = tls_files.ca_file
    client = tls_files.client
    elsewhere = nsq.TLSOptions(ca_file=ca_file, server_hostname="elsewhere.example")
    with_certificate = nsq.TLSOptions(
        ca_file=ca_file,
        certificate_file=client.certificate_file,
        private_key_file=client.private_key_file,
    )
    cases: list[tuple[Any, KeyPair, str | None, bool]] = [
        (False, tls_files.server, None, False),
        (True, tls_files.server, None, False),
        (context, tls_files.server, None, True),
        (nsq.TLSOptions(ca_file=ca_file), tls_files.server, None, True),
        (nsq.TLSOptions(ca_file=ca_file), tls_files.stranger, None, False),
        (nsq.TLSOptions(verify=False), tls_files.stranger, None, True),
        (nsq.TLSOptions(ca_file=ca_file), tls_files.other_host, None, False),
        (elsewhere, tls_files.other_host, None, True),
        (elsewhere, tls_files.server, None, False),
        (nsq.TLSOptions(ca_file=ca_file), tls_files.server, ca_file, False),
        (with_certificate, tls_files.server, ca_file, True),
    ]
    for tls, pair, client_ca_file, works in cases:
        events = Events()
        async with (
            strict_lookupd(pair=pair, client_ca_file=client_ca_file) as lookupd,
            polling(lookup(lookupd, events, lookupd_tls=tls)),
        ):
            await until(events.__len__)
            assert isinstance(events[0], LookupDone if works else LookupFailed), (tls, events[0])


def test_a_file_that_is_not_there_is_told_at_once() -> None:
    lookupd = FakeLookupd(url="https://127.0.0.1:1")
    with pytest.raises(nsq.InvalidOption, match=r"/nonexistent/ca\.pem"):
        lookup(lookupd, Events(), lookupd_tls=nsq.TLSOptions(ca_file="/nonexistent/ca.pem"))


# The end.


@pytest.mark.parametrize("asked", [True, False])
async def test_leaving_the_block_ends_a_poll_and_leaves_nothing(asked: bool) -> None:
    async with fake_lookupd() as lookupd:
        lookupd.gate = anyio.Event()
        with anyio.fail_after(LIMIT):
            async with nsq.consume("t", "c", nsqlookupd=lookupd.url):
                if asked:
                    await until(lambda: lookupd.requests)
        assert client_tasks() == []


async def test_after_stop_no_more_nsqds_are_connected() -> None:
    async with (
        fake_nsqds(2) as (one, two),
        fake_lookupd(one) as lookupd,
        nsq.consume("t", "c", nsqlookupd=lookupd.url, options=POLLING) as consumer,
    ):
        await connected(consumer, one)
        consumer.stop()
        lookupd.names(one, two)
        await polled(lookupd, 3)
        assert two.connections == []
