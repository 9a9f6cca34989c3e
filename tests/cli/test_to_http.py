"""``nsq-anyio to-http`` as a process, on an embedded nsqd."""

from __future__ import annotations

import signal
import socket
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from itertools import count

import pytest
from click.testing import CliRunner

from nsq_anyio.cli.backend import BACKENDS
from nsq_anyio.cli.main import cli

from .forwarders import Answer, Request, Server, embedded_nsqds, end, flags, forwarding, http_sink, until
from .hostile_http import HEADS_THAT_FAIL, hostile_server

CHANNEL = "nsq_to_http"

_numbers = count(1)


@pytest.fixture(scope="module")
def cluster() -> Generator[tuple[str, Server]]:
    with embedded_nsqds(1) as (nsqlookupd, (nsqd,)):
        yield nsqlookupd, nsqd


@pytest.fixture
def nsqd(cluster: tuple[str, Server]) -> Server:
    return cluster[1]


@pytest.fixture
def topic() -> str:
    return f"topic-{next(_numbers)}"


@pytest.mark.parametrize("backend", BACKENDS)
def test_post(nsqd: Server, topic: str, backend: str) -> None:
    bodies = [b"one", b"\x00\xff\n two", b"three"]
    nsqd.publish(topic, *bodies)
    with http_sink() as sink:
        arguments = flags(
            topic=topic,
            nsqd_tcp_address=nsqd.tcp_address,
            post=f"{sink.url.replace('//', '//user:s3cret@')}/put?token=t0ken",
            header=["X-Source: nsq", "user-agent:mine"],
            content_type="text/plain",
            status_every="1",
            backend=backend,
        )
        with forwarding("to-http", *arguments) as process:
            until(lambda: nsqd.is_done_with(topic, CHANNEL, 3))
            log = end(process)
    assert sorted(sink.bodies) == sorted(bodies)
    for request in sink.requests:
        assert (request.method, request.path) == ("POST", "/put?token=t0ken")
        expected = {
            "x-source": "nsq",
            "user-agent": "mine",
            "content-type": "text/plain",
            "authorization": "Basic dXNlcjpzM2NyZXQ=",
            "content-length": str(len(request.body)),
        }
        assert expected.items() <= request.headers.items()
    assert log.count("[aggregate]: finished 1 - 99th: ") == 3
    assert "s3cret" not in log
    assert "t0ken" not in log


@pytest.mark.parametrize("backend", BACKENDS)
def test_get_by_nsqlookupd(cluster: tuple[str, Server], topic: str, backend: str) -> None:
    nsqlookupd, nsqd = cluster
    nsqd.publish(topic, b"a b&\xff")
    address = nsqlookupd.removeprefix("http://")
    with http_sink() as sink:
        arguments = ["-topic", topic, "-lookupd-http-address", address, f"-get={sink.url}/in?x=1&m=%s"]
        with forwarding("to-http", *arguments, "--backend", backend) as process:
            until(lambda: nsqd.is_done_with(topic, CHANNEL, 1))
            end(process, signal.SIGINT)
    (request,) = sink.requests
    assert (request.method, request.path) == ("GET", "/in?x=1&m=a+b%26%FF")
    assert request.headers["user-agent"].startswith("nsq-anyio/")
    assert "content-type" not in request.headers


def test_statuses(nsqd: Server, topic: str) -> None:
    def answer(request: Request) -> Answer:
        tries[request.body] += 1
        if request.body == b"bad":
            return 400, {}
        if request.body == b"known":
            return 409, {}
        if request.body == b"busy" and tries[b"busy"] < 3:
            return 503, {"Retry-After": "0"}
        return 204, {"Content-Length": "0"}

    tries: Counter[bytes] = Counter()
    nsqd.publish(topic, b"bad", b"known", b"good", b"busy")
    with http_sink(answer) as sink:
        arguments = flags(
            topic=topic,
            nsqd_tcp_address=nsqd.tcp_address,
            post=sink.url,
            on_status=["4xx=discard", "409=finish"],
            consumer_opt="backoff_multiplier,10ms",
        )
        with forwarding("to-http", *arguments) as process:
            until(lambda: nsqd.is_done_with(topic, CHANNEL, 4), lambda: nsqd.channel(topic, CHANNEL))
            log = end(process)
    assert tries == {b"bad": 1, b"known": 1, b"good": 1, b"busy": 3}
    assert log.count("discarded: " + sink.url) == 1
    assert log.count("503 Service Unavailable") == 2


def test_a_message_is_tried_for_as_long_as_it_takes(nsqd: Server, topic: str) -> None:
    tries = count(1)
    nsqd.publish(topic, b"m")
    with http_sink(lambda _: (200 if next(tries) > 8 else 500, {})) as sink:
        arguments = flags(
            topic=topic,
            nsqd_tcp_address=nsqd.tcp_address,
            post=sink.url,
            consumer_opt=["requeue_delay,0", "max_backoff_duration,0"],
        )
        with forwarding("to-http", *arguments) as process:
            until(lambda: nsqd.is_done_with(topic, CHANNEL, 1))
            end(process)
    assert len(sink.requests) == 9


def test_attempts_can_be_bounded(nsqd: Server, topic: str) -> None:
    nsqd.publish(topic, b"m")
    with http_sink(lambda _: (500, {})) as sink:
        arguments = flags(
            topic=topic,
            nsqd_tcp_address=nsqd.tcp_address,
            post=sink.url,
            consumer_opt=["requeue_delay,0", "max_backoff_duration,0", "max-attempts,3"],
        )
        with forwarding("to-http", *arguments) as process:
            until(lambda: nsqd.is_done_with(topic, CHANNEL, 1))
            log = end(process)
    assert len(sink.requests) == 3
    assert "gave up message" in log


@pytest.mark.parametrize("mode", ["hostpool", "epsilon-greedy", "round-robin", "least-outstanding"])
def test_a_dead_endpoint_holds_up_nothing(nsqd: Server, topic: str, mode: str) -> None:
    nsqd.publish(topic, *[b"m"] * 20)
    with http_sink() as sink:
        arguments = flags(
            topic=topic, nsqd_tcp_address=nsqd.tcp_address, post=["http://127.0.0.1:1/", sink.url], mode=mode
        )
        with forwarding("to-http", *arguments, "-n", "2") as process:
            until(lambda: nsqd.is_done_with(topic, CHANNEL, 20))
            log = end(process)
    assert len(sink.requests) == 20
    assert "http://127.0.0.1:1/: " in log
    assert nsqd.channel(topic, CHANNEL)["requeue_count"] == 0


def test_all_get_each_message(nsqd: Server, topic: str) -> None:
    nsqd.publish(topic, b"1", b"2", b"3")
    with http_sink() as one, http_sink() as other:
        arguments = flags(
            topic=topic, nsqd_tcp_address=nsqd.tcp_address, post=[one.url, other.url], mode="all"
        )
        with forwarding("to-http", *arguments) as process:
            until(lambda: nsqd.is_done_with(topic, CHANNEL, 3))
            end(process)
    assert sorted(one.bodies) == sorted(other.bodies) == [b"1", b"2", b"3"]


def test_no_sample_finishes_all(nsqd: Server, topic: str) -> None:
    nsqd.publish(topic, *[b"m"] * 20)
    with http_sink() as sink:
        arguments = flags(topic=topic, nsqd_tcp_address=nsqd.tcp_address, post=sink.url, sample="0")
        with forwarding("to-http", *arguments) as process:
            until(lambda: nsqd.is_done_with(topic, CHANNEL, 20))
            end(process)
    assert sink.requests == []


def test_a_slow_request_ends_with_its_timeout(nsqd: Server, topic: str) -> None:
    nsqd.publish(topic, b"m")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        arguments = flags(
            topic=topic,
            nsqd_tcp_address=nsqd.tcp_address,
            post=f"http://127.0.0.1:{silent.getsockname()[1]}",
            http_client_request_timeout="300ms",
        )
        with forwarding("to-http", *arguments) as process:
            until(lambda: nsqd.channel(topic, CHANNEL).get("requeue_count"))
            log = end(process)
    assert "no answer within 0.3 s" in log
    assert nsqd.channel(topic, CHANNEL)["deferred_count"] == 1


def test_a_redirect_is_not_followed_and_cannot_control_the_terminal(nsqd: Server, topic: str) -> None:
    nsqd.publish(topic, b"m")
    with http_sink(lambda _: (302, {"Location": "/elsewhere\x9b2J"})) as sink:
        arguments = flags(topic=topic, nsqd_tcp_address=nsqd.tcp_address, post=sink.url)
        with forwarding("to-http", *arguments) as process:
            until(lambda: nsqd.channel(topic, CHANNEL).get("requeue_count"))
            log = end(process)
    assert "redirects are not followed: name the final address, /elsewhere\\x9b2J)" in log
    assert "\x9b" not in log
    assert {request.path for request in sink.requests} == {"/"}


@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_is_lost_on_hostile_servers(nsqd: Server, topic: str, backend: str) -> None:
    """The log says what each does wrong, and the message waits in nsqd until a server takes it."""
    nsqd.publish(topic, b"m")
    with ExitStack() as stack:
        servers = {
            name: stack.enter_context(hostile_server(conversation))
            for name, (_, conversation) in HEADS_THAT_FAIL.items()
        }
        arguments = flags(
            topic=topic,
            nsqd_tcp_address=nsqd.tcp_address,
            post=[server.url for server in servers.values()],
            http_client_request_timeout="60s",
            consumer_opt="requeue_delay,5s",
            backend=backend,
        )
        with forwarding("to-http", *arguments) as process:
            until(lambda: nsqd.channel(topic, CHANNEL).get("requeue_count"))
            log = end(process)
        for name, server in servers.items():
            (line,) = [line for line in log.splitlines() if f" {server.url}: " in line]
            assert HEADS_THAT_FAIL[name][0] in line
            assert server.bodies == [b"m"]
        left = nsqd.channel(topic, CHANNEL)
        assert left["deferred_count"] + left["depth"] == 1
        with http_sink() as sink:
            arguments = flags(topic=topic, nsqd_tcp_address=nsqd.tcp_address, post=sink.url, backend=backend)
            with forwarding("to-http", *arguments) as process:
                until(lambda: sink.bodies == [b"m"], lambda: nsqd.channel(topic, CHANNEL))
                end(process)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_signal_lets_requests_end(nsqd: Server, topic: str, backend: str) -> None:
    released = count()
    nsqd.publish(topic, b"m")

    def answer(_request: Request) -> Answer:
        until(lambda: next(released) > 50)
        return 200, {}

    with http_sink(answer) as sink:
        arguments = flags(topic=topic, nsqd_tcp_address=nsqd.tcp_address, post=sink.url, backend=backend)
        with forwarding("to-http", *arguments) as process:
            until(lambda: sink.requests)
            end(process)
    assert len(sink.requests) == 1
    assert nsqd.is_done_with(topic, CHANNEL, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"post": "http://h/"}, "use --nsqd-tcp-address or --lookupd-http-address"),
        ({"nsqd_tcp_address": "h:1"}, "neither of --post and --get given"),
        ({"nsqd_tcp_address": "h:1", "post": "http://h/", "get": "http://h/%s"}, "both of --post and --get"),
        ({"nsqd_tcp_address": "h:1", "post": "h/"}, "'h/' is not an HTTP address"),
        ({"nsqd_tcp_address": "h:1", "get": "http://h/"}, "contains '%s' 0 times"),
        (
            {"nsqd_tcp_address": "h:1", "get": "http://h/%s", "content_type": "a/b"},
            "--content-type has no effect",
        ),
        ({"nsqd_tcp_address": "h:1", "post": "http://h/", "sample": "1.5"}, "--sample"),
        ({"nsqd_tcp_address": "h:1", "post": "http://h/", "sample": "nan"}, "'nan' is not a number"),
        ({"nsqd_tcp_address": "h:1", "post": "http://h:99999/"}, "'http://h:99999/' is not an HTTP address"),
        ({"nsqd_tcp_address": "h:1", "post": "http://h:0/"}, "'http://h:0/' is not an HTTP address"),
        ({"nsqd_tcp_address": "h:1", "post": "http://xn--a/"}, "'http://xn--a/' is not an HTTP address"),
        ({"nsqd_tcp_address": "h:1", "post": "http://h/", "mode": "hostpol"}, "'hostpol' is not one of"),
        ({"nsqd_tcp_address": "h:1", "post": "http://h/", "on_status": "404=drop"}, "is not a rule"),
        ({"nsqd_tcp_address": "h:1", "post": "http://h/", "header": "X"}, "header X has no valid value"),
        ({"nsqd_tcp_address": "h:1", "post": "http://h/", "channel": "a b"}, "channel 'a b' is not valid"),
        ({"nsqd_tcp_address": "h:1", "post": "https://h/", "http_client_tls_root_ca_file": "/no"}, None),
    ],
)
def test_bad_command_lines_are_explained(
    nsqd: Server, arguments: dict[str, str | Sequence[str]], message: str | None
) -> None:
    if message is None:  # which only running it tells
        arguments |= {"nsqd_tcp_address": nsqd.tcp_address}
    done = CliRunner().invoke(cli, ["to-http", *flags(topic="t", **arguments)])
    assert done.exit_code == 2
    assert (message or "--http-client-tls-root-ca-file '/no' cannot be read") in done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "header",
    [
        "Content-Length: 3",
        "transfer-encoding:chunked",
        "Connection: close",
        "Keep-Alive: timeout=5",
        "Proxy-Connection: close",
        "Upgrade: h2c",
        "HTTP2-Settings: AAMAAABk",
        "TE: trailers",
        "Trailer: X",
    ],
)
def test_headers_that_frame_are_refused(header: str) -> None:
    arguments = flags(topic="t", nsqd_tcp_address="h:1", post="http://h/", header=header)
    done = CliRunner().invoke(cli, ["to-http", *arguments])
    assert done.exit_code == 2
    name = header.partition(":")[0]
    assert f"Error: header {name} cannot be set: it frames the request" in done.stderr


@pytest.mark.parametrize("source", ["--nsqd-tcp-address=127.0.0.1:1", "--lookupd-http-address=127.0.0.1:1"])
def test_with_no_server_there_it_is_one_clear_line(source: str) -> None:
    done = CliRunner().invoke(cli, ["to-http", "--topic=t", source, "--post=http://127.0.0.1:1/"])
    assert done.exit_code == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: ")
    assert "127.0.0.1:1" in line


def test_help_has_an_example() -> None:
    done = CliRunner().invoke(cli, ["to-http", "--help"])
    assert "Example:\n    nsq-anyio to-http " in done.output
