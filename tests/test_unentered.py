"""What `consume` and `produce` return says how it is to be used, when it is used otherwise."""

from typing import Any

import pytest

import nsq_anyio as nsq

from .fake_nsqd import fake_nsqd, serve

pytestmark = pytest.mark.anyio

NSQD = "127.0.0.1:4150"


async def test_iterating_without_entering() -> None:
    consume: Any = nsq.consume("t", "c", nsqd=NSQD)
    with pytest.raises(nsq.NotEntered, match=r"write `async with nsq\.consume\(\.\.\.\) as consumer:`"):
        async for _ in consume:
            pass
    produce: Any = nsq.produce(NSQD)
    with pytest.raises(nsq.Closed, match=r"nsq\.produce"):
        async for _ in produce:
            pass


@pytest.mark.parametrize("name", ["run", "batches", "stop", "in_flight", "statistics"])
async def test_using_a_consumer_without_entering(name: str) -> None:
    with pytest.raises(nsq.NotEntered, match=f"'{name}' is for use in the block"):
        getattr(nsq.consume("t", "c", nsqd=NSQD), name)


@pytest.mark.parametrize("name", ["publish", "publish_many", "connections"])
async def test_using_a_producer_without_entering(name: str) -> None:
    with pytest.raises(nsq.NotEntered, match=r"async with nsq\.produce"):
        getattr(nsq.produce(NSQD), name)


async def test_other_names_are_missing_as_usual() -> None:
    block = nsq.produce(NSQD)
    assert not hasattr(block, "publish")  # for tools that look
    assert not hasattr(block, "no_such_thing")
    with pytest.raises(AttributeError, match="has no attribute 'publsh'"):
        getattr(block, "publsh")  # noqa: B009 - mypy knows that there is none
    assert repr(block) == "<Producer to be entered with `async with nsq.produce(...) as producer:`>"


async def test_it_is_entered_and_left_as_before() -> None:
    async with fake_nsqd(serve) as nsqd:
        with pytest.raises(ValueError, match="mine"):
            async with nsq.consume("t", "c", nsqd=nsqd.address) as consumer:
                assert isinstance(consumer, nsq.Consumer)
                raise ValueError("mine")
        async with nsq.consume("t", "c", nsqd=nsqd.address) as consumer:
            await consumer.ready()
