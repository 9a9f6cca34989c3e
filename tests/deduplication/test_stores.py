"""What each store does, in memory, in SQLite and in Redis: one list of cases for all three."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.deduplication import Claim, Claimed, MemoryStore, RedisStore, SQLiteStore, Store, StoreFailed

from ..redis_server import RedisServer, redis_server
from .conftest import MakeStore

pytestmark = pytest.mark.anyio

FIRST = Claim("t/c/id", "delivery 1", "nsqd 1/message")
AGAIN = Claim("t/c/id", "delivery 2", "nsqd 1/message")
COPY = Claim("t/c/id", "delivery 3", "nsqd 2/message")
NEW = Claimed("new")


@asynccontextmanager
async def opened(*stores: Store) -> AsyncGenerator[None]:
    async with AsyncExitStack() as stack:
        for store in stores:
            if isinstance(store, AbstractAsyncContextManager):
                await stack.enter_async_context(store)
        yield


async def until_new(store: Store, claim: Claim) -> None:
    with anyio.fail_after(15):
        while await store.claim(claim, 60) != NEW:  # noqa: ASYNC110 - nothing sets an event
            await anyio.sleep(0.005)


async def test_one_delivery_gets_the_claim(make_store: MakeStore) -> None:
    store = make_store(60)
    async with opened(store):
        assert await store.claim(FIRST, 60) == NEW
        for other in (AGAIN, COPY):
            state, seconds = await store.claim(other, 60)
            assert state == "held"
            assert 50 < seconds <= 60
        assert await store.claim(COPY._replace(id="t/other/id"), 60) == NEW


async def test_what_is_done_stays_done(make_store: MakeStore) -> None:
    store = make_store(60)
    async with opened(store):
        await store.claim(FIRST, 60)
        await store.done(FIRST)
        assert [await store.claim(each, 60) for each in (FIRST, AGAIN, COPY)] == [Claimed("done")] * 3
        await store.release(FIRST, 0)
        assert await store.claim(COPY, 60) == Claimed("done")


async def test_a_claim_runs_out(make_store: MakeStore) -> None:
    store = make_store(60)
    async with opened(store):
        await store.claim(FIRST, 0.05)
        await until_new(store, COPY)
        assert (await store.claim(FIRST, 60)).state == "held"
        await store.release(FIRST, 0)  # it holds nothing any more
        assert (await store.claim(AGAIN, 60)).state == "held"
        await store.done(FIRST)  # but it was handled
        assert await store.claim(AGAIN, 60) == Claimed("done")


async def test_a_holder_extends_its_claim(make_store: MakeStore) -> None:
    store = make_store(60)
    async with opened(store):
        await store.claim(FIRST, 1)
        assert await store.claim(FIRST, 60) == NEW
        assert (await store.claim(COPY, 60)).seconds > 50


async def test_a_released_claim_is_free(make_store: MakeStore) -> None:
    store = make_store(60)
    async with opened(store):
        await store.claim(FIRST, 60)
        await store.release(COPY, 0)
        assert (await store.claim(COPY, 60)).state == "held"
        await store.release(FIRST, 0)
        assert await store.claim(COPY, 60) == NEW


async def test_a_claim_is_kept_for_the_same_message(make_store: MakeStore) -> None:
    store = make_store(60)
    async with opened(store):
        await store.claim(FIRST, 60)
        await store.release(FIRST, 30)
        state, seconds = await store.claim(COPY, 60)
        assert state == "kept"
        assert 20 < seconds <= 30
        assert await store.claim(AGAIN, 60) == NEW
        assert (await store.claim(COPY, 60)).state == "held"


async def test_what_is_kept_runs_out(make_store: MakeStore) -> None:
    store = make_store(60)
    async with opened(store):
        await store.claim(FIRST, 60)
        await store.release(FIRST, 0.05)
        await until_new(store, COPY)


async def test_the_window_ends(make_store: MakeStore) -> None:
    store = make_store(0.1)
    async with opened(store):
        await store.claim(FIRST, 60)
        await store.done(FIRST)
        await until_new(store, COPY)


async def test_of_many_claims_at_once_one_is_new(make_store: MakeStore) -> None:
    store = make_store(60)
    answers: list[Claimed] = []

    async def claim(number: int) -> None:
        answers.append(await store.claim(Claim("t/c/id", f"delivery {number}", "n/m"), 60))

    async with opened(store), anyio.create_task_group() as tasks:
        for number in range(300):
            tasks.start_soon(claim, number)
    assert [answer.state for answer in answers].count("new") == 1
    assert len(answers) == 300


async def test_a_cancelled_call_leaves_the_store_usable(make_store: MakeStore) -> None:
    store = make_store(60)
    async with opened(store):
        with anyio.CancelScope() as scope:
            scope.cancel()
            await store.claim(FIRST, 60)
        assert await store.claim(COPY._replace(id="another"), 60) == NEW


async def test_ids_may_have_any_text(make_store: MakeStore) -> None:
    store = make_store(60)
    async with opened(store):
        for id in ("", "ü \n\0 '\"", "x" * 10_000):
            claim = FIRST._replace(id=id)
            assert await store.claim(claim, 60) == NEW
            assert (await store.claim(claim._replace(holder="other"), 60)).state == "held"


# Stores with a thread


async def test_two_stores_of_one_place_share_its_ids(tmp_path: Path, redis: RedisServer) -> None:
    for first, second in (
        (SQLiteStore(tmp_path / "ids.db"), SQLiteStore(str(tmp_path / "ids.db"))),
        (RedisStore(redis.url, prefix=str(tmp_path)), RedisStore(redis.url, prefix=str(tmp_path))),
    ):
        async with opened(first, second):
            assert await first.claim(FIRST, 60) == NEW
            assert (await second.claim(COPY, 60)).state == "held"
        async with opened(second):  # again
            await second.done(COPY)
        async with opened(first):
            assert await first.claim(AGAIN, 60) == Claimed("done")


async def test_the_last_block_ends_the_thread(tmp_path: Path, redis: RedisServer) -> None:
    for store in (SQLiteStore(tmp_path / "ids.db"), RedisStore(redis.url)):

        def threads(name: str = repr(store)) -> list[str]:
            return [thread.name for thread in threading.enumerate() if name in thread.name]

        async with opened(store):
            async with opened(store):
                await store.done(FIRST)
            await store.done(FIRST)
            assert len(threads()) == 1
        assert threads() == []
        with pytest.raises(nsq.Closed, match=r"is not open: use it in `async with store:`"):
            await store.done(FIRST)


async def test_memory_forgets_the_oldest() -> None:
    store = MemoryStore(size=2)
    for number in range(3):
        await store.done(FIRST._replace(id=str(number)))
    assert repr(store) == "<MemoryStore 2 ids>"
    assert [(await store.claim(COPY._replace(id=str(each)), 60)).state for each in (1, 2, 0)] == [
        "done",
        "done",
        "new",
    ]


async def test_memory_forgets_what_has_run_out() -> None:
    store = MemoryStore(window=0.05)
    await store.done(FIRST)
    await until_new(store, COPY)  # it holds the id for a minute
    await store.release(COPY, 0)
    await store.done(FIRST)
    number = 0
    with anyio.fail_after(15):
        while number < 2 or repr(store) == f"<MemoryStore {number + 1} ids>":
            await store.done(FIRST._replace(id=str(number)))
            number += 1
            await anyio.sleep(0.005)


def rows(path: Path) -> list[str]:
    connection = sqlite3.connect(path)
    try:
        return [id for (id,) in connection.execute("SELECT id FROM ids ORDER BY place")]
    finally:
        connection.close()


async def test_sqlite_forgets_the_oldest(tmp_path: Path) -> None:
    path = tmp_path / "ids.db"
    async with SQLiteStore(path, size=3) as store:
        for number in range(10):
            await store.claim(FIRST._replace(id=str(number)), 60)
            await store.done(FIRST._replace(id=str(number)))
    assert set(rows(path)) <= {"7", "8", "9"}
    assert rows(path)[-1] == "9"


async def test_sqlite_deletes_what_has_run_out(tmp_path: Path) -> None:
    path = tmp_path / "ids.db"
    async with SQLiteStore(path, window=0.001) as store:
        for number in range(10):
            await store.done(FIRST._replace(id=str(number)))
        await anyio.sleep(0.01)
        await store.claim(COPY, 60)
    assert rows(path) == [COPY.id]


@pytest.mark.parametrize(
    ("statement", "reason"),
    [
        ("PRAGMA user_version=2", "it has version 2, and this release knows version 1"),
        ("PRAGMA application_id=7", "it is a database of another program"),
    ],
)
async def test_a_foreign_file_is_refused(tmp_path: Path, statement: str, reason: str) -> None:
    path = tmp_path / "ids.db"
    async with SQLiteStore(path) as store:
        await store.done(FIRST)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=DELETE")
    connection.execute(statement)
    connection.close()
    before = path.read_bytes()
    async with SQLiteStore(path) as store:
        with pytest.raises(StoreFailed, match=reason):
            await store.done(FIRST)
    assert path.read_bytes() == before


@pytest.mark.parametrize(("size", "reason"), [(1, "it is no database"), (1000, "file is not a database")])
async def test_a_file_that_is_no_database_is_refused(tmp_path: Path, size: int, reason: str) -> None:
    path = tmp_path / "ids.db"
    path.write_bytes(b"x" * size)
    async with SQLiteStore(path) as store:
        with pytest.raises(StoreFailed, match=reason):
            await store.claim(FIRST, 60)
    assert path.read_bytes() == b"x" * size


async def test_a_file_that_comes_back_is_used_again(tmp_path: Path) -> None:
    directory = tmp_path / "away"
    async with SQLiteStore(directory / "ids.db") as store:
        with pytest.raises(StoreFailed, match="unable to open database file"):
            await store.claim(FIRST, 60)
        directory.mkdir()
        assert await store.claim(FIRST, 60) == NEW


async def test_redis_that_is_restarted_or_away() -> None:
    with redis_server() as server:
        async with RedisStore(server.url) as store:
            assert await store.claim(FIRST, 60) == NEW
            server.kill()
            server.start()
            assert await store.claim(COPY, 60) == NEW  # it has forgotten, and its connection is replaced
            server.kill()
            with pytest.raises(StoreFailed, match=r"<RedisStore 127\.0\.0\.1:\d+>: .*[Cc]onnect"):
                await store.claim(FIRST, 60)
            server.start()
            assert await store.claim(FIRST, 60) == NEW


def test_the_password_is_not_shown() -> None:
    store = RedisStore("redis://:s3cret@redis.example.com:6380/2")
    assert repr(store) == "<RedisStore redis.example.com:6380>"
    assert repr(RedisStore("unix:///run/redis.sock")) == "<RedisStore /run/redis.sock>"


def test_values_are_checked(tmp_path: Path) -> None:
    with pytest.raises(nsq.InvalidOption, match=r"window=0 is not valid: use 0\.001 or more \(seconds\)"):
        MemoryStore(window=0)
    with pytest.raises(nsq.InvalidOption, match="size=0 is not valid: use 1 or more"):
        SQLiteStore(tmp_path / "ids.db", size=0)
    with pytest.raises(nsq.InvalidOption, match="path='' is not valid: use the path of a file"):
        SQLiteStore("")
    with pytest.raises(nsq.InvalidOption, match="url is not valid: use one such as redis://"):
        RedisStore("http://:s3cret@127.0.0.1")
    with pytest.raises(nsq.InvalidOption, match=r"window=1e\+20 is not valid: use 0\.001 to 1000000000 "):
        RedisStore("redis://127.0.0.1", window=1e20)
    with pytest.raises(nsq.InvalidOption, match="prefix=None is not valid"):
        RedisStore("redis://127.0.0.1", prefix=None)  # type: ignore[arg-type]
