"""The live tail of a topic, on an embedded nsqd."""

import anyio
import pytest

from nsq_anyio.admin.messages.tail import Tail, TooManyViewers

from ... import virtual_time
from .stage import stage

anyio_backend = virtual_time.anyio_backend
pytestmark = pytest.mark.anyio


async def until(tail: Tail, phase: str) -> None:
    while tail.state.phase != phase:
        await tail.changed()


async def shown(tail: Tail, count: int, number: int = 0) -> str:
    """What is shown once so many messages came."""
    while tail.number < count:
        await tail.changed()
    return "".join(piece.html for piece in tail.since(number))


async def test_it_shows_copies_and_vanishes() -> None:
    async with stage() as on:
        topic = await on.topic("clicks", "archive")
        await on.http.publish(topic, b"before")
        tails = on.tails()
        async with tails.watching(topic, on.render) as tail:
            await until(tail, "live")
            assert len(tail.state.connected) == 1
            for number in range(3):
                await on.http.publish(topic, b'{"n": %d}' % number)
            assert sorted((await shown(tail, 3)).strip("[]").split("][")) == [
                '{"n": 0}',
                '{"n": 1}',
                '{"n": 2}',
            ]
            (own,) = set(await on.channels(topic)) - {"archive"}
            assert own.startswith("admin-tail-")
            assert own.endswith("#ephemeral")
        await on.only_channels(topic, "archive")
        assert (await on.channels(topic))["archive"].depth == 4
        assert tails.topics == 0


async def test_viewers_share_one_consumer() -> None:
    async with stage() as on:
        topic = await on.topic("clicks", "archive")
        tails = on.tails()
        async with tails.watching(topic, on.render) as first:
            await until(first, "live")
            async with tails.watching(topic, on.render) as second:
                assert first is second
                await on.http.publish(topic, b"one")
                assert await shown(second, 1) == "[one]"
                (own,) = set(await on.channels(topic)) - {"archive"}
                assert (await on.channels(topic))[own].client_count == 1
            await on.http.publish(topic, b"two")
            assert await shown(first, 2, 1) == "[two]"
            assert (tails.topics, tails.viewers) == (1, 1)
        await on.only_channels(topic, "archive")


async def test_it_drains_no_topic_unless_it_is_told_to() -> None:
    async with stage() as on:
        topic = await on.topic("lonely")
        await on.http.publish(topic, b"one")
        await on.http.publish(topic, b"two")
        tails = on.tails()
        async with tails.watching(topic, on.render) as tail:
            await until(tail, "draining")
            assert (tail.state.is_over, tail.state.waiting) == (True, 2)
        assert await on.channels(topic) == {}
        token = tails.permit(topic)
        assert not tails.is_permitted("other", token)
        assert not tails.is_permitted(topic, "")
        assert tails.is_permitted(topic, token)
        async with tails.watching(topic, on.render, may_drain=True) as tail:
            assert await shown(tail, 2) == "[one][two]"
            async with tails.watching(topic, on.render) as other:  # who has not confirmed it takes nothing
                await until(other, "draining")


async def test_an_ephemeral_channel_does_not_keep_messages() -> None:
    async with stage() as on:
        topic = await on.topic("clicks", "other#ephemeral")
        async with on.tails().watching(topic, on.render) as tail:
            await until(tail, "draining")


async def test_no_topic_is_created() -> None:
    async with stage() as on:
        tails = on.tails()
        async with tails.watching("unknown", on.render) as tail:
            await until(tail, "gone")
        assert await on.topics() == []
        topic = await on.topic("clicks", "archive")
        async with tails.watching(topic, on.render) as tail:
            await until(tail, "live")
            await on.http.delete_topic(topic)
            await until(tail, "gone")
        assert await on.topics() == []


async def test_it_ends_when_the_last_lasting_channel_is_deleted() -> None:
    async with stage() as on:
        topic = await on.topic("clicks", "archive")
        async with on.tails().watching(topic, on.render) as tail:
            await until(tail, "live")
            await on.http.delete_channel(topic, "archive")
            await until(tail, "draining")
            await on.only_channels(topic)


async def test_a_busy_topic_is_sampled() -> None:
    async with stage(received_per_second=40, shown_per_second=20) as on:
        topic = await on.topic("clicks", "archive")
        async with on.tails().watching(topic, on.render) as tail, anyio.create_task_group() as tasks:

            async def publish() -> None:
                while True:
                    await on.http.publish_many(topic, [b"x"] * 100)
                    await anyio.sleep(0.02)

            tasks.start_soon(publish)
            while not tail.state.sample_rate:
                await tail.changed()
            while not tail.state.estimated:
                await tail.changed()
            assert tail.state.sample_rate < 50
            tasks.cancel_scope.cancel()
        assert len(on.rendered) > 0


async def test_viewers_and_topics_are_bounded() -> None:
    async with stage(viewers=2, tails=1) as on:
        await on.topic("a", "c")
        await on.topic("b", "c")
        tails = on.tails()
        async with tails.watching("a", on.render):
            with pytest.raises(TooManyViewers):
                async with tails.watching("b", on.render):
                    pass
            async with tails.watching("a", on.render):
                with pytest.raises(TooManyViewers):
                    async with tails.watching("a", on.render):
                        pass


async def test_what_is_kept_is_bounded() -> None:
    async with stage(kept=10, shown_per_second=1000) as on:
        topic = await on.topic("clicks", "archive")
        async with on.tails().watching(topic, on.render) as tail:
            await until(tail, "live")
            for number in range(50):
                await on.http.publish(topic, b"%d" % number)
                if number % 5 == 0:
                    await shown(tail, number + 1)
            await shown(tail, 50)
            assert 10 <= sum(piece.html.count("[") for piece in tail.since(0)) < 30


async def test_cancelled_it_ends_at_once() -> None:
    async with stage() as on:
        topic = await on.topic("clicks", "archive")
        async with on.tails().watching(topic, on.render) as tail:
            await until(tail, "live")
            on.tasks.cancel_scope.cancel()
        with anyio.CancelScope(shield=True), anyio.fail_after(10):
            await on.only_channels(topic, "archive")
