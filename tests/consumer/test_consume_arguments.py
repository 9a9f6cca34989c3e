"""Values that cannot work are refused by the call itself, before anything is opened."""

from typing import Any

import anyio
import pytest

import nsq_anyio as nsq

pytestmark = pytest.mark.anyio

NSQD = "127.0.0.1:4150"
LOOKUPD = "http://127.0.0.1:4161"


@pytest.mark.parametrize("name", ["", "a b", "a/b", "t\n", "x" * 65, "#ephemeral", "ü"])
async def test_names_that_nsqd_would_refuse(name: str) -> None:
    with pytest.raises(nsq.InvalidName):
        nsq.consume(name, "c", nsqd=NSQD)
    with pytest.raises(nsq.InvalidName):
        nsq.consume("t", name, nsqd=NSQD)


@pytest.mark.parametrize("nsqd", ["", "127.0.0.1", "127.0.0.1:0", "::1:4150", LOOKUPD, [], [NSQD, "x"]])
async def test_addresses_that_are_none(nsqd: Any) -> None:
    with pytest.raises(nsq.InvalidAddress):
        nsq.consume("t", "c", nsqd=nsqd)


@pytest.mark.parametrize("nsqlookupd", ["", "ftp://127.0.0.1", [LOOKUPD, "http://"]])
async def test_urls_that_are_none(nsqlookupd: Any) -> None:
    with pytest.raises(nsq.InvalidAddress):
        nsq.consume("t", "c", nsqlookupd=nsqlookupd)


async def test_an_empty_list_of_nsqlookupds() -> None:
    with pytest.raises(nsq.InvalidOption, match="nsqlookupd is empty"):
        nsq.consume("t", "c", nsqlookupd=[])


async def test_either_nsqd_or_nsqlookupd_and_not_both() -> None:
    with pytest.raises(nsq.InvalidOption, match="neither of nsqd and nsqlookupd"):
        nsq.consume("t", "c")
    with pytest.raises(nsq.InvalidOption, match="both of nsqd and nsqlookupd"):
        nsq.consume("t", "c", nsqd=NSQD, nsqlookupd=LOOKUPD)


@pytest.mark.parametrize("value", [-1, 1.5, "5", True])
async def test_a_max_in_flight_that_is_no_count(value: Any) -> None:
    with pytest.raises(nsq.InvalidOption, match="max_in_flight="):
        nsq.consume("t", "c", nsqd=NSQD, max_in_flight=value)


@pytest.mark.parametrize("value", [5, anyio.Semaphore, "limiter"])
async def test_a_limiter_that_is_none(value: Any) -> None:
    with pytest.raises(nsq.InvalidOption, match=r"use an anyio\.CapacityLimiter"):
        nsq.consume("t", "c", nsqd=NSQD, limiter=value)


@pytest.mark.parametrize("concurrency", [0, -1, 1.5, True])
async def test_a_concurrency_that_is_no_positive_count(concurrency: Any) -> None:
    async def handler(_message: nsq.Message) -> None:
        raise AssertionError

    async with nsq.consume("t", "c", nsqd="127.0.0.1:1") as consumer:
        with pytest.raises(nsq.InvalidOption, match="concurrency="):
            await consumer.run(handler, concurrency=concurrency)


@pytest.mark.parametrize("value", [-1, 1.5, None])
async def test_a_max_in_flight_set_later_that_is_no_count(value: Any) -> None:
    async with nsq.consume("t", "c", nsqd="127.0.0.1:1", max_in_flight=3) as consumer:
        with pytest.raises(nsq.InvalidOption, match="max_in_flight="):
            consumer.max_in_flight = value
        assert consumer.max_in_flight == 3
