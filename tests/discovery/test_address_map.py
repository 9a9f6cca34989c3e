"""``map_address``: nsqds that nsqlookupds name are reached elsewhere, and keep the names they advertise."""

from __future__ import annotations

from typing import Any

import pytest

import nsq_anyio as nsq
from nsq_anyio.address import Address
from nsq_anyio.connection.open import mapped
from nsq_anyio.events import Connected, ConnectFailed

from ..consumer.fake_lookupd import fake_lookupd, producer
from ..fake_nsqd import Events, FakeNsqd, fake_nsqd, serve, until
from ..producer.test_pool import store

pytestmark = pytest.mark.anyio

ADVERTISED = "nsqd.internal.invalid:4150"
POLLING: dict[str, Any] = {"lookupd_poll_interval": 0.02}


def returning(answer: Any) -> Any:
    """A function that maps each address to the same."""

    def map_address(host: str, port: int) -> Any:
        return answer

    return map_address


def address_maps(nsqd: FakeNsqd) -> list[Any]:
    host, _, port = nsqd.address.rpartition(":")
    return [
        {ADVERTISED: nsqd.address, "other:1": "elsewhere:2"},
        returning((host, int(port))),
        returning(nsqd.address),
    ]


@pytest.mark.parametrize("kind", range(3), ids=["mapping", "to a pair", "to a text"])
async def test_a_consumer_reaches_it_there(kind: int) -> None:
    events = Events()
    async with fake_nsqd(serve) as nsqd, fake_lookupd() as lookupd:
        lookupd.says({"producers": [producer(ADVERTISED)]})
        options = nsq.ConnectionOptions(map_address=address_maps(nsqd)[kind])
        async with nsq.consume(
            "t", "c", nsqlookupd=lookupd.url, connection=options, on_event=events
        ) as consumer:
            await consumer.ready()
            assert consumer.connections == (ADVERTISED,)
            await nsqd.connections[0].message()
            message = await anext(consumer)
            assert message.nsqd == ADVERTISED
            message.finish()
    (connected,) = events.of(Connected)
    assert (connected.nsqd, connected.mapped_to) == (ADVERTISED, nsqd.address)
    assert str(connected).endswith(f" at {nsqd.address}")


async def test_a_producer_reaches_it_there() -> None:
    events = Events()
    async with fake_nsqd(store) as nsqd, fake_lookupd() as lookupd:
        lookupd.says({"producers": [producer(ADVERTISED)]})
        options = nsq.ConnectionOptions(map_address={ADVERTISED: nsqd.address})
        async with nsq.produce(nsqlookupd=lookupd.url, connection=options, on_event=events) as producing:
            await producing.publish("t", b"x")
            assert producing.connections == (ADVERTISED,)
        assert nsqd.connections[0].lines == [b"x"]
    assert [event.mapped_to for event in events.of(Connected)] == [nsqd.address]


async def test_addresses_that_were_given_are_not_mapped() -> None:
    events = Events()
    async with fake_nsqd(store) as nsqd:
        options = nsq.ConnectionOptions(map_address={nsqd.address: "127.0.0.1:1"})
        async with nsq.produce(nsqd.address, connection=options, on_event=events) as producing:
            await producing.publish("t", b"x")
    assert [event.mapped_to for event in events.of(Connected)] == [""]


def raising(_host: str, _port: int) -> str:
    raise KeyError("zone")


@pytest.mark.parametrize(
    ("map_address", "reason"),
    [
        ({ADVERTISED: "127.0.0.1:1"}, "cannot connect: .* at 127.0.0.1:1"),
        (raising, r"map_address raised KeyError\('zone'\)"),
        (returning(None), r"map_address returned None: use \(host, port\) or 'host:port'"),
        (returning("nowhere"), "map_address returned 'nowhere': use"),
        (returning(("h", "1")), r"map_address returned \('h', '1'\): use"),
    ],
)
async def test_a_failure_names_both_and_is_tried_again(map_address: Any, reason: str) -> None:
    events = Events()
    async with fake_lookupd() as lookupd:
        lookupd.says({"producers": [producer(ADVERTISED)]})
        async with nsq.consume(
            "t",
            "c",
            nsqlookupd=lookupd.url,
            options=nsq.ConsumerOptions(**POLLING),
            connection=nsq.ConnectionOptions(map_address=map_address),
            on_event=events,
        ):
            await until(lambda: len(events.of(ConnectFailed)) > 1)
    first = events.of(ConnectFailed)[0]
    assert first.nsqd == ADVERTISED
    with pytest.raises(nsq.DialFailed, match=f"^nsqd {ADVERTISED}: {reason}"):
        raise first.error


def test_keys_count_by_what_they_mean() -> None:
    assert mapped(Address("::1", 4150), {"[::1]:04150": "h:1"}) == Address("h", 1)
    assert mapped(Address("h", 1), {"h:2": "x:1"}) == Address("h", 1)
    assert mapped(Address("h", 1), None) == Address("h", 1)
