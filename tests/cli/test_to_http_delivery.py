"""Which endpoints get a message, and what becomes of it, on endpoints that answer as told."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.cli.to_http.delivery import ToAll, handler, is_in_sample
from nsq_anyio.cli.to_http.endpoint import Endpoint, get_endpoint, post_endpoint
from nsq_anyio.cli.to_http.flags import MODES
from nsq_anyio.cli.to_http.sender import Answer
from nsq_anyio.cli.to_http.status_policy import StatusPolicy

pytestmark = pytest.mark.anyio

OK = Answer(200, "200 OK")
DOWN = Answer(None, "refused")
BROKEN = Answer(500, "500 Internal Server Error")
BUSY = Answer(503, "503 Service Unavailable", retry_after=30.0)
BAD = Answer(400, "400 Bad Request")

A, B, C = (post_endpoint(f"http://{name}.example.com/") for name in "abc")


@dataclass
class FakeMessage:
    id: str = "0123456789abcdef"
    nsqd: str = "127.0.0.1:4150"
    body: bytes = b"body"


@dataclass
class World:
    """Endpoints by what they answer, and how often each was asked."""

    answers: dict[Endpoint, Answer]
    asked: Counter[str] = field(default_factory=Counter[str])

    async def send(self, endpoint: Endpoint, body: bytes) -> Answer:
        assert body == b"body"
        self.asked[endpoint.shown[7]] += 1
        await anyio.lowlevel.checkpoint()
        return self.answers[endpoint]


def message(number: int = 0) -> nsq.Message:
    return cast("nsq.Message", FakeMessage(id=f"{number:016x}"))


def endpoints(*answers: Answer) -> tuple[list[Endpoint], World]:
    made = [post_endpoint(f"http://{name}.example.com/") for name, _ in zip("abc", answers, strict=False)]
    return made, World(dict(zip(made, answers, strict=True)))


def policy(*rules: str) -> StatusPolicy:
    return StatusPolicy.parse(rules)


async def outcome(mode: str, world: World, rules: Sequence[str] = ()) -> BaseException | None:
    try:
        await handler(mode, list(world.answers), world.send, policy(*rules)).handle(message())
    except (nsq.Requeue, nsq.Discard) as error:
        return error
    return None


@pytest.mark.parametrize("mode", MODES)
async def test_a_success_finishes(mode: str) -> None:
    _, world = endpoints(OK)
    assert await outcome(mode, world) is None
    assert world.asked == {"a": 1}


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("answer", [DOWN, BROKEN, BAD, Answer(302, "302 Found")])
async def test_by_default_a_failure_requeues_and_backs_off(mode: str, answer: Answer) -> None:
    _, world = endpoints(answer)
    error = await outcome(mode, world)
    assert isinstance(error, nsq.Requeue)
    assert (error.delay, error.backoff) == (None, True)


@pytest.mark.parametrize("mode", MODES)
async def test_requeue_does_not_back_off(mode: str) -> None:
    _, world = endpoints(BAD)
    error = await outcome(mode, world, ["4xx=requeue"])
    assert isinstance(error, nsq.Requeue)
    assert (error.delay, error.backoff) == (None, False)


async def test_discard_says_why() -> None:
    _, world = endpoints(BAD)
    error = await outcome("hostpool", world, ["400=discard"])
    assert isinstance(error, nsq.Discard)
    assert error.reason == "http://a.example.com/: 400 Bad Request"


@pytest.mark.parametrize("mode", MODES[:-1])
@pytest.mark.parametrize("answer", [DOWN, BROKEN, BUSY])
async def test_another_endpoint_gets_it_when_one_is_broken(mode: str, answer: Answer) -> None:
    _, world = endpoints(answer, OK)
    for number in range(10):
        await handler(mode, list(world.answers), world.send, policy()).handle(message(number))
    assert world.asked["b"] == 10


@pytest.mark.parametrize("mode", MODES[:-1])
async def test_an_answer_about_the_message_goes_to_no_other_endpoint(mode: str) -> None:
    _, world = endpoints(BAD, BAD, BAD)
    assert isinstance(await outcome(mode, world), nsq.Requeue)
    assert world.asked.total() == 1


@pytest.mark.parametrize("mode", MODES[:-1])
async def test_with_all_broken_each_is_tried_once(mode: str) -> None:
    _, world = endpoints(DOWN, BROKEN, DOWN)
    assert isinstance(await outcome(mode, world), nsq.Requeue)
    assert world.asked == {"a": 1, "b": 1, "c": 1}


async def test_round_robin_takes_turns() -> None:
    made, world = endpoints(OK, OK, OK)
    turns = handler("round-robin", made, world.send, policy())
    for number in range(9):
        await turns.handle(message(number))
    assert world.asked == {"a": 3, "b": 3, "c": 3}


async def test_hostpool_leaves_a_broken_one_out() -> None:
    made, world = endpoints(DOWN, OK)
    pool = handler("hostpool", made, world.send, policy())
    for number in range(20):
        await pool.handle(message(number))
    assert world.asked == {"a": 1, "b": 20}


async def test_hostpool_keeps_one_that_refuses_a_message() -> None:
    made, world = endpoints(BAD, OK)
    pool = handler("hostpool", made, world.send, policy("4xx=discard"))
    for number in range(20):
        try:
            await pool.handle(message(number))
        except nsq.Discard:
            continue
    assert world.asked == {"a": 10, "b": 10}


async def test_an_endpoint_that_asks_to_be_left_alone_is() -> None:
    made, world = endpoints(BUSY, OK)
    turns = handler("round-robin", made, world.send, policy())
    for number in range(10):
        await turns.handle(message(number))
    assert world.asked == {"a": 1, "b": 10}


@pytest.mark.parametrize("mode", MODES)
async def test_with_all_left_alone_messages_wait_for_the_first(mode: str) -> None:
    made, world = endpoints(BUSY, Answer(429, "429 Too Many Requests", retry_after=60.0))
    forwarder = handler(mode, made, world.send, policy())
    for _ in range(3):
        with pytest.raises(nsq.Requeue) as caught:
            await forwarder.handle(message())
        wait = 60 if mode == "all" else 30
        assert caught.value.backoff
        assert caught.value.delay == pytest.approx(wait, abs=1)
    assert world.asked == {"a": 1, "b": 1}


async def test_all_get_it_and_those_that_have_it_not_again() -> None:
    made, world = endpoints(OK, DOWN, BAD)
    everyone = handler("all", made, world.send, policy("400=requeue"))
    with pytest.raises(nsq.Requeue) as caught:
        await everyone.handle(message())
    assert caught.value.backoff
    assert world.asked == {"a": 1, "b": 1, "c": 1}
    world.answers[made[1]] = OK
    with pytest.raises(nsq.Requeue) as caught:
        await everyone.handle(message())
    assert not caught.value.backoff
    assert world.asked == {"a": 1, "b": 2, "c": 2}
    world.answers[made[2]] = OK
    await everyone.handle(message())
    assert world.asked == {"a": 1, "b": 2, "c": 3}
    await everyone.handle(message(1))
    assert world.asked == {"a": 2, "b": 3, "c": 4}


async def test_of_all_one_may_discard(caplog: pytest.LogCaptureFixture) -> None:
    made, world = endpoints(OK, BAD)
    with caplog.at_level(logging.WARNING):
        await handler("all", made, world.send, policy("400=discard")).handle(message())
    assert "http://b.example.com/: 400 Bad Request: message 0000000000000000 is discarded" in caplog.text


async def test_what_all_have_is_remembered_for_so_many_messages() -> None:
    made, world = endpoints(OK, DOWN)
    everyone = ToAll(made, world.send, policy(), max_remembered=2)
    for number in (1, 2, 3, 3, 1):
        with pytest.raises(nsq.Requeue):
            await everyone.handle(message(number))
    assert world.asked == {"a": 4, "b": 5}  # 1 was forgotten when 3 came, 3 was not


async def test_a_cancelled_delivery_remembers_who_has_it() -> None:
    made, world = endpoints(OK, OK)
    stuck = True

    async def send(endpoint: Endpoint, body: bytes) -> Answer:
        if endpoint is made[1] and stuck:
            await anyio.sleep_forever()
        return await world.send(endpoint, body)

    everyone = handler("all", made, send, policy())
    with anyio.move_on_after(0.05):
        await everyone.handle(message())
    assert world.asked == {"a": 1}
    stuck = False
    await everyone.handle(message())
    assert world.asked == {"a": 1, "b": 1}


def test_a_sample_is_the_same_at_each_try() -> None:
    taken = [number for number in range(10_000) if is_in_sample(message(number), 0.25)]
    assert len(taken) == pytest.approx(2500, rel=0.1)
    assert taken == [number for number in range(10_000) if is_in_sample(message(number), 0.25)]
    assert all(is_in_sample(message(number), 1.0) for number in range(1000))
    assert not any(is_in_sample(message(number), 0.0) for number in range(1000))


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("http://h:1/get?m=%s", b"/get?m=a+b%26%C3%A9%FF%2F.-_~"),
        ("http://h:1/get/%s/x", b"/get/a+b%26%C3%A9%FF%2F.-_~/x"),
        ("https://h/?a=%%20b&m=%s", b"/?a=%20b&m=a+b%26%C3%A9%FF%2F.-_~"),
        ("https://h/?a=%2Fb&m=%s", b"/?a=%2Fb&m=a+b%26%C3%A9%FF%2F.-_~"),
    ],
)
def test_get_escapes_the_message_as_in_a_query(text: str, target: bytes) -> None:
    assert get_endpoint(text).target("a b&é".encode() + b"\xff/.-_~") == target


def test_post_keeps_its_address() -> None:
    assert post_endpoint("http://h:1/put/?a=%s%20").target(b"x") == b"/put/?a=%s%20"


def test_secrets_are_sent_but_not_shown() -> None:
    endpoint = post_endpoint("http://us%40er:s3cret@h:1/put?token=s3cret")
    assert endpoint.shown == "http://h:1/put"
    assert "s3cret" not in repr(endpoint)
    assert endpoint.target(b"") == b"/put?token=s3cret"
    assert endpoint.authorization == "Basic dXNAZXI6czNjcmV0"


@pytest.mark.parametrize(
    "text", ["", "h:1", "ftp://h/", "http://", "http://h:x/", "http://h/a b", "http://h/\n"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(nsq.InvalidOption, match="is not an HTTP address"):
        post_endpoint(text)


@pytest.mark.parametrize(("text", "times"), [("http://h/", 0), ("http://u:s3cret@h/%s?m=%s", 2)])
def test_get_needs_one_place_for_the_message(text: str, times: int) -> None:
    with pytest.raises(nsq.InvalidOption, match=f"contains '%s' {times} times") as caught:
        get_endpoint(text)
    assert "s3cret" not in str(caught.value)
