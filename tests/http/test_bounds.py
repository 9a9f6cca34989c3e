"""What a hostile answer may cost: how many values it has, and what goes on while it is read."""

import threading

import pytest

from nsq_anyio.errors import HTTPInvalidReply
from nsq_anyio.http import Nsqd, Stats

from .support import Answers

pytestmark = pytest.mark.anyio

URL = "http://nsqd:4151"


@pytest.mark.parametrize("value", [b"{}", b"[]", b"1", b"[[[[]]]]", b'{"a":1,"b":2}'])
async def test_an_answer_has_a_bounded_number_of_values(value: bytes) -> None:
    body = b'{"topics":[' + b",".join([value] * 4100) + b"]}"
    async with Nsqd(URL, max_reply_size=64_000, transport=Answers(body).transport) as nsqd:
        with pytest.raises(HTTPInvalidReply, match="more than 4000 values"):
            await nsqd.stats()


async def test_the_answer_of_a_large_nsqd_is_read() -> None:
    client = b'{"client_id":"consumer-1","hostname":"host-1","in_flight_count":1000,"ready_count":2500}'
    channel = b'{"channel_name":"archive","depth":12345,"clients":[%s]}' % b",".join([client] * 20)
    body = b'{"topics":[{"topic_name":"clicks","channels":[%s]}]}' % b",".join([channel] * 10)
    async with Nsqd(URL, max_reply_size=len(body), transport=Answers(body).transport) as nsqd:
        assert len((await nsqd.stats()).topics[0].channels) == 10


async def test_a_large_answer_is_read_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    readers: list[threading.Thread] = []
    read = Stats.read

    def noted(value: object) -> Stats:
        readers.append(threading.current_thread())
        return read(value)

    monkeypatch.setattr(Stats, "read", noted)
    for size in (1000, 2_000_000):
        body = b'{"topics":[],"health":"%s"}' % (b"x" * size)
        async with Nsqd(URL, transport=Answers(body).transport) as nsqd:
            assert (await nsqd.stats()).health == "x" * size
    assert readers[0] is threading.current_thread()
    assert readers[1] is not threading.current_thread()
