"""Files that go to a storage are sent while the next ones are written."""

from __future__ import annotations

import logging
from functools import partial

import anyio
import pytest

from nsq_anyio.cli.to_file.rotation import Rotation
from nsq_anyio.cli.to_file.topic import CannotWrite

from .fake_store import OUTPUT, Store, store
from .topic_setup import LONG, Setup, has_finished, setup, until

__all__ = ["setup", "store"]

pytestmark = pytest.mark.anyio

ONE_LINE = Rotation(size=1)
"""Every message has a file of its own."""


async def test_messages_are_finished_while_a_file_is_sent(setup: Setup, store: Store) -> None:
    store.may_answer.clear()
    async with setup.archiving(sync_interval=0.1, rotation=ONE_LINE, output=OUTPUT) as (consumer, _):
        for number in range(1, 4):
            await setup.publish(b"%d" % number)
            await until(partial(has_finished, consumer, number))
        assert store.files == {}
        store.may_answer.set()
    assert sorted(store.files.values()) == [b"1\n", b"2\n", b"3\n"]


async def test_messages_wait_at_nsqd_when_a_storage_is_slow(setup: Setup, store: Store) -> None:
    store.may_answer.clear()
    # Without ticks, which end files as well.
    async with setup.archiving(rotation=ONE_LINE, output=OUTPUT, max_in_flight=1) as (consumer, _):
        await setup.publish(*(b"%d" % number for number in range(50)))
        # Two are sent, one waits, one has no room, and one is written.
        await until(lambda: len(list(setup.directory.iterdir())) == 5)
        await anyio.sleep(0.3)
        assert len(list(setup.directory.iterdir())) == 5
        assert consumer.statistics().finished <= 5
        store.may_answer.set()
        await until(partial(has_finished, consumer, 50))
    assert len(store.files) == 50


async def test_a_storage_that_fails_ends_it(
    setup: Setup, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    store.failure = OSError("S3 cannot be used: Connect")
    with caplog.at_level(logging.WARNING), pytest.raises(ExceptionGroup) as caught:
        async with setup.archiving(sync_interval=LONG, rotation=ONE_LINE, output=OUTPUT):
            await setup.publish(b"a", b"b")
            await anyio.sleep_forever()
    (error,) = caught.value.exceptions
    assert isinstance(error, CannotWrite)
    assert str(error).startswith(f"cannot write {OUTPUT}/t-000000: S3 cannot be used: Connect; ")
    left = sorted(path.read_bytes() for path in setup.directory.iterdir())
    assert left[0] == b"a\n"
    assert store.files == {}


async def test_several_files_that_cannot_be_sent_are_one_failure(
    setup: Setup, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    store.may_answer.clear()
    with caplog.at_level(logging.WARNING), pytest.raises(ExceptionGroup) as caught:
        async with setup.archiving(rotation=ONE_LINE, output=OUTPUT, max_in_flight=1):
            await setup.publish(*(b"%d" % number for number in range(50)))
            await until(lambda: store.asked == 2)
            store.failure = OSError("S3 cannot be used: Connect")
            store.may_answer.set()
            await anyio.sleep_forever()
    (error,) = caught.value.exceptions
    assert isinstance(error, CannotWrite)
    told = [record.getMessage() for record in caplog.records]
    assert len([text for text in told if "S3 cannot be used: Connect" in text]) == 1
    left = [path for path in setup.directory.iterdir() if f"{path} stays" in " ".join(told)]
    assert len(left) >= 3, "those that were not tried are named as well"


async def test_what_is_written_when_it_is_cancelled_stays(
    setup: Setup, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    with anyio.CancelScope() as scope, caplog.at_level(logging.WARNING):
        async with setup.archiving(sync_interval=0.1, output=OUTPUT) as (consumer, _):
            await setup.publish(b"a")
            await until(partial(has_finished, consumer, 1))
            scope.cancel()
            await anyio.sleep_forever()
    assert store.files == {}
    assert [path.read_bytes() for path in setup.directory.iterdir()] == [b"a\n"]
    assert "stays, and is moved when the command begins again" in caplog.text
