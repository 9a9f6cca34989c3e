"""Actions of the pages on real nsqds and nsqlookupds: each of them, and what a part that fails is told of."""

import re
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio
import httpx
import pytest

import nsq_anyio as nsq
from nsq_anyio.admin import AdminOptions
from tests.real_servers import RealServer, suspend

from .test_admin_api import nsq_servers, own_admin

pytestmark = pytest.mark.anyio

OWN = {"HX-Request": "true", "X-Requested-With": "htmx", "Sec-Fetch-Site": "same-origin"}


@dataclass(frozen=True)
class Stage:
    """Two real nsqds at two real nsqlookupds, each with topic ``clicks`` and channel ``archive``."""

    client: httpx.AsyncClient
    nsqds: tuple[RealServer, ...]
    lookupds: tuple[RealServer, ...]

    async def confirm(self, **query: str) -> str:
        reply = await self.client.get("/confirm", params=query)
        assert reply.status_code == 200, reply.text
        return " ".join(re.sub(r"<[^>]*>", " ", reply.text).split())

    async def act(self, **form: str) -> dict[str, str]:
        """Return what came of it, by the name of the server."""
        reply = await self.client.post("/actions", data=form)
        assert reply.status_code == 200, reply.text
        body = reply.text.partition("<tbody>")[2].partition("</tbody>")[0]
        rows = re.findall(r"(?s)<tr>(.*?)</tr>", body)
        cells = [" ".join(re.sub(r"<[^>]*>", " ", row).split()) for row in rows]
        return {cell.split()[1]: " ".join(cell.split()[2:]) for cell in cells}

    async def topic(self, number: int) -> nsq.http.TopicStats | None:
        async with nsq.http.Nsqd(self.nsqds[number].http_url) as http:
            return next((each for each in (await http.stats()).topics if each.topic_name == "clicks"), None)

    async def until_registered(self, topic: str, count: int) -> None:
        """Wait until all nsqlookupds know as many nsqds for a topic."""
        with anyio.fail_after(10):
            for lookupd in self.lookupds:
                async with nsq.http.Nsqlookupd(lookupd.http_url) as http:
                    while sum(topic in each.topics for each in await http.nodes()) != count:  # noqa: ASYNC110
                        await anyio.sleep(0.02)


def name(server: RealServer) -> str:
    return server.http_url.removeprefix("http://")


@asynccontextmanager
async def stage(*, direct: bool = False, timeout: float = 10.0) -> AsyncGenerator[Stage]:
    async with nsq_servers(2, 0 if direct else 2) as (nsqds, lookupds):
        for nsqd in nsqds:
            async with nsq.http.Nsqd(nsqd.http_url) as http:
                await http.create_topic("clicks")
                await http.create_channel("clicks", "archive")
                await http.publish_many("clicks", [b"1", b"2", b"3"])
        addresses = [name(each) for each in (nsqds if direct else lookupds)]
        options = AdminOptions(timeout=timeout, poll_interval=0.2)
        own = own_admin((), addresses, options) if direct else own_admin(addresses, (), options)
        async with own as url, httpx.AsyncClient(base_url=url, headers=OWN, trust_env=False) as client:
            client.timeout = httpx.Timeout(30.0)
            here = Stage(client, nsqds, lookupds)
            await here.until_registered("clicks", 2)
            yield here


@pytest.mark.timeout(120)
async def test_every_action() -> None:
    async with stage() as here:
        nsqds, lookupds = [name(each) for each in here.nsqds], [name(each) for each in here.lookupds]

        def expected(on_nsqds: str, on_lookupds: str = "") -> dict[str, str]:
            told = dict.fromkeys(lookupds, f"done {on_lookupds}") if on_lookupds else {}
            return {**told, **dict.fromkeys(nsqds, f"done {on_nsqds}")}

        archive = {"topic": "clicks", "channel": "archive"}
        for what in ({"topic": "clicks"}, archive):
            for action in ("pause", "unpause"):
                assert await here.act(action=action, **what) == expected(f"{action}d")
                for number in (0, 1):
                    topic = await here.topic(number)
                    assert topic is not None
                    paused = topic.channels[0].paused if "channel" in what else topic.paused
                    assert paused is (action == "pause")
        assert "6 messages will be lost." in await here.confirm(action="empty", **archive)
        assert await here.act(action="empty", typed="archive", **archive) == expected("emptied")
        assert await here.act(action="empty", topic="clicks") == expected("emptied")
        topic = await here.topic(0)
        assert topic is not None
        assert topic.channels[0].depth == 0
        assert await here.act(action="create", topic="clicks", channel="new") == expected(
            "created", "registered"
        )
        assert await here.act(action="delete", topic="clicks", channel="new") == expected(
            "deleted", "forgotten"
        )
        question = await here.confirm(action="tombstone", topic="clicks", node=nsqds[0])
        assert f"Tombstone topic clicks on {nsqds[0]}?" in question
        assert await here.act(action="tombstone", topic="clicks", node=nsqds[0]) == {
            **dict.fromkeys(lookupds, "done hidden"),
            nsqds[0]: "done deleted",
        }
        assert await here.topic(0) is None
        assert await here.topic(1) is not None
        assert await here.act(action="delete", topic="clicks", typed="clicks") == {
            **dict.fromkeys(lookupds, "done forgotten"),
            nsqds[1]: "done deleted",
        }
        assert await here.topic(1) is None
        assert await here.act(action="create", topic="fresh") == dict.fromkeys(lookupds, "done registered")


@pytest.mark.timeout(120)
async def test_consumers_are_named_before_they_are_disconnected() -> None:
    async with stage() as here:
        async with nsq.consume("clicks", "archive", nsqd=here.nsqds[0].tcp_address) as consumer:
            message = await anext(aiter(consumer))
            text = await here.confirm(action="delete", topic="clicks", channel="archive")
            assert "6 messages will be lost, and 1 consumer will be disconnected." in text
            message.finish()


@pytest.mark.timeout(120)
async def test_an_nsqd_that_was_killed_is_told_of() -> None:
    async with stage(direct=True) as here:
        gone, left = here.nsqds
        await gone.kill()
        text = await here.confirm(action="empty", topic="clicks", channel="archive")
        assert f"{name(gone)}: It did not say which nsqds have the topic" in text
        found = await here.act(action="empty", topic="clicks", channel="archive", typed="archive")
        assert found[name(left)] == "done emptied"
        assert found[name(gone)].startswith("failed It did not say which nsqds have the topic:")
        topic = await here.topic(1)
        assert topic is not None
        assert topic.channels[0].depth == 0


@pytest.mark.timeout(120)
async def test_an_nsqd_that_hangs_is_told_of() -> None:
    """nsqlookupds still name it, unlike one that was killed."""
    async with stage(timeout=2.0) as here:
        hanging, well = here.nsqds
        suspend(hanging.process)
        try:
            text = await here.confirm(action="delete", topic="clicks")
            assert f"{name(hanging)} not known: no answer within 2 s" in text
            found = await here.act(action="delete", topic="clicks", typed="clicks")
            assert found.pop(name(hanging)) == (
                "failed It did not answer, and may have done it all the same: no answer within 2 s."
            )
            assert found == {
                **{name(each): "done forgotten" for each in here.lookupds},
                name(well): "done deleted",
            }
        finally:
            hanging.process.send_signal(signal.SIGCONT)
        assert await here.topic(1) is None


@pytest.mark.timeout(120)
async def test_an_nsqlookupd_that_is_gone_is_told_of() -> None:
    async with stage(timeout=2.0) as here:
        gone, left = here.lookupds
        await gone.kill()
        found = await here.act(action="delete", topic="clicks", typed="clicks")
        assert found[name(gone)].startswith("failed It did not say which nsqds have the topic:")
        assert found[name(left)] == "done forgotten"
        assert [await here.topic(number) for number in (0, 1)] == [None, None]
