"""Actions in the pages: what a dialog says before, and what came of it on each server."""

import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import httpx
import pytest

import nsq_anyio as nsq
from nsq_anyio.admin import Admin, AdminOptions, app
from nsq_anyio.embedded import EmbeddedNsqd, EmbeddedNsqlookupd

from .test_application import Below

pytestmark = pytest.mark.anyio

DEAD = "127.0.0.1:1"
OWN = {"HX-Request": "true", "X-Requested-With": "htmx", "Sec-Fetch-Site": "same-origin"}


class Stage:
    """Two nsqds at an nsqlookupd, and the pages over them."""

    def __init__(
        self, client: httpx.AsyncClient, lookupd: EmbeddedNsqlookupd, nsqds: list[EmbeddedNsqd]
    ) -> None:
        self.client = client
        self.lookupd = lookupd
        self.nsqds = nsqds

    @property
    def names(self) -> list[str]:
        return [nsqd.http_url.removeprefix("http://") for nsqd in self.nsqds]

    async def confirm(self, **query: str) -> httpx.Response:
        return await self.client.get("/confirm", params=query)

    async def act(self, **form: str) -> httpx.Response:
        return await self.client.post("/actions", data=form)

    async def until_page(self, path: str, *names: str) -> None:
        """Wait until a page names servers."""
        with anyio.fail_after(10):
            while not set(names) <= set(re.findall(r"[\w.]+:\d+", (await self.client.get(path)).text)):  # noqa: ASYNC110
                await anyio.sleep(0.02)

    async def topics(self) -> list[list[nsq.http.TopicStats]]:
        found: list[list[nsq.http.TopicStats]] = []
        for nsqd in self.nsqds:
            async with nsq.http.Nsqd(nsqd.http_url) as http:
                found.append(list((await http.stats()).topics))
        return found


@asynccontextmanager
async def stage(*more: str, direct: bool = False, **options: object) -> AsyncGenerator[Stage]:
    """Two nsqds, each with topic ``clicks``, channel ``archive`` and three messages in it.

    :param more: further servers of the kind that the application is given
    :param direct: whether that are the nsqds
    """
    async with (
        nsq.embedded.nsqlookupd() as lookupd,
        nsq.embedded.nsqd(lookupd_tcp_addresses=[lookupd.tcp_address]) as first,
        nsq.embedded.nsqd(lookupd_tcp_addresses=[lookupd.tcp_address]) as second,
    ):
        nsqds = [first, second]
        for nsqd in nsqds:
            async with nsq.http.Nsqd(nsqd.http_url) as http:
                await http.create_topic("clicks")
                await http.create_channel("clicks", "archive")
                await http.publish_many("clicks", [b"1", b"2", b"3"])
        await until_registered(lookupd, "clicks", 2)
        given = AdminOptions(**{"poll_interval": 0.05, **options})  # type: ignore[arg-type]
        urls = [*([nsqd.http_url for nsqd in nsqds] if direct else [lookupd.http_url]), *more]
        application = app((), urls, options=given) if direct else app(urls, options=given)
        async with application, talking(application) as client:
            yield Stage(client, lookupd, nsqds)


@asynccontextmanager
async def talking(application: Admin) -> AsyncGenerator[httpx.AsyncClient]:
    """A browser that shows a page of the application."""
    transport = Below(application)
    async with httpx.AsyncClient(transport=transport, base_url="http://admin", headers=OWN) as client:
        yield client


async def until_registered(lookupd: EmbeddedNsqlookupd, topic: str, count: int) -> None:
    async with nsq.http.Nsqlookupd(lookupd.http_url) as http:
        with anyio.fail_after(10):
            while True:
                nodes = await http.nodes()
                if sum(topic in node.topics for node in nodes) == count:
                    return
                await anyio.sleep(0.01)


def title(reply: httpx.Response) -> str:
    found = re.search(r'<h2 id="dialog-title"[^>]*>(.*?)</h2>', reply.text)
    assert found, reply.text
    return found[1]


def rows(reply: httpx.Response) -> list[str]:
    """The rows of the table, as text."""
    body = reply.text.partition("<tbody>")[2].partition("</tbody>")[0]
    return [" ".join(re.sub(r"<[^>]*>", " ", row).split()) for row in re.findall(r"(?s)<tr>(.*?)</tr>", body)]


def text(reply: httpx.Response) -> str:
    blocks = re.sub(r"</?(?:span|strong)[^>]*>", "", reply.text)
    return " ".join(re.sub(r"<[^>]*>", " ", blocks).split())


async def test_a_dialog_names_what_is_affected() -> None:
    async with stage() as here:
        reply = await here.confirm(action="delete", topic="clicks")
        assert reply.status_code == 200
        assert title(reply) == "Delete topic clicks?"
        assert "6 messages will be lost." in text(reply)
        assert "1 channel: archive." in text(reply)
        assert "Whoever publishes to it later creates it again, empty." in text(reply)
        assert f"Told first: nsqlookupd {here.lookupd.http_url.removeprefix('http://')}." in text(reply)
        for name in here.names:
            assert re.search(rf"{name}</th>\s*<td class=\"n\">3</td>", reply.text)
        assert 'name="typed" required pattern="clicks"' in reply.text
        for action in ("pause", "unpause"):
            reply = await here.confirm(action=action, topic="clicks", channel="archive")
            assert title(reply) == f"{action.capitalize()} channel archive of topic clicks?"
            assert "lost" not in text(reply)
            assert "typed" not in reply.text


async def test_clients_are_counted() -> None:
    async with stage() as here:
        address = here.nsqds[0].tcp_address
        async with (
            nsq.produce(nsqd=address) as producer,
            nsq.consume("clicks", "archive", nsqd=address, max_in_flight=1) as consumer,
        ):
            await producer.publish("clicks", b"4")
            message = await anext(aiter(consumer))
            reply = await here.confirm(action="delete", topic="clicks")
            assert "7 messages will be lost, and 1 consumer will be disconnected." in text(reply)
            assert "1 connected client has published to it" in text(reply)
            assert "Consumers that connect again create it again as well." in text(reply)
            message.finish()


async def test_every_action_has_a_result_for_each_server() -> None:
    async with stage() as here:
        names = here.names
        lookupd = "nsqlookupd " + here.lookupd.http_url.removeprefix("http://")

        async def act(**form: str) -> list[str]:
            reply = await here.act(**form)
            assert reply.status_code == 200
            assert reply.headers["hx-trigger"] == "acted"
            return rows(reply)

        on = {"topic": "clicks", "channel": "archive"}
        expected = [f"nsqd {name} done" for name in sorted(names)]
        assert await act(action="pause", **on) == [f"{each} paused" for each in expected]
        assert [topics[0].channels[0].paused for topics in await here.topics()] == [True, True]
        assert await act(action="unpause", **on) == [f"{each} unpaused" for each in expected]
        assert await act(action="pause", topic="clicks") == [f"{each} paused" for each in expected]
        assert [topics[0].paused for topics in await here.topics()] == [True, True]
        assert await act(action="unpause", topic="clicks") == [f"{each} unpaused" for each in expected]
        assert await act(action="empty", typed="archive", **on) == [f"{each} emptied" for each in expected]
        assert [topics[0].channels[0].depth for topics in await here.topics()] == [0, 0]
        assert await act(action="empty", topic="clicks") == [f"{each} emptied" for each in expected]
        assert await act(action="create", topic="clicks", channel="new") == [
            f"{lookupd} done registered",
            *(f"{each} created" for each in expected),
        ]
        assert await act(action="delete", topic="clicks", channel="new") == [
            f"{lookupd} done forgotten",
            *(f"{each} deleted" for each in expected),
        ]
        assert await act(action="tombstone", topic="clicks", node=names[0]) == [
            f"{lookupd} done hidden",
            f"nsqd {names[0]} done deleted",
        ]
        assert [len(topics) for topics in await here.topics()] == [0, 1]
        assert await act(action="delete", topic="clicks", typed="clicks") == [
            f"{lookupd} done forgotten",
            f"nsqd {names[1]} done deleted",
        ]
        assert await here.topics() == [[], []]
        assert await act(action="create", topic="fresh") == [f"{lookupd} done registered"]


async def test_without_nsqlookupds_the_nsqds_are_told_alone() -> None:
    async with stage(direct=True) as here:
        reply = await here.act(action="create", topic="fresh", channel="c")
        assert rows(reply) == [f"nsqd {name} done created" for name in sorted(here.names)]
        reply = await here.confirm(action="tombstone", topic="clicks", node=here.names[0])
        assert "hide" not in text(reply)
        assert "Told first" not in text(reply)
        reply = await here.act(action="tombstone", topic="clicks", node=here.names[0], typed="clicks")
        assert rows(reply) == [f"nsqd {here.names[0]} done deleted"]


async def test_a_part_that_fails_is_shown() -> None:
    async with stage(DEAD, direct=True) as here:
        reply = await here.confirm(action="empty", topic="clicks", channel="archive")
        assert f"{DEAD}: It did not say which nsqds have the topic:" in text(reply)
        reply = await here.act(action="empty", topic="clicks", channel="archive", typed="archive")
        assert reply.status_code == 200
        assert (
            title(reply) == "Channel archive of topic clicks was emptied in part only: 1 of 3 servers failed."
        )
        found = rows(reply)
        assert f"nsqd {DEAD} failed It did not say which nsqds have the topic:" in found[0]
        assert found[1:] == [f"nsqd {name} done emptied" for name in sorted(here.names)]
        assert "Try again" in reply.text


async def test_a_server_without_the_channel_has_nothing_to_do() -> None:
    async with stage() as here:
        async with nsq.http.Nsqd(here.nsqds[0].http_url) as http:
            await http.create_channel("clicks", "extra")
        reply = await here.confirm(action="pause", topic="clicks", channel="extra")
        assert f"{here.names[1]} does not have it" in rows(reply)
        reply = await here.act(action="pause", topic="clicks", channel="extra")
        late = "does not have the channel, so one that is created there later is not paused"
        assert f"nsqd {here.names[1]} not there {late}" in rows(reply)
        assert title(reply) == "Channel extra of topic clicks was paused."


@asynccontextmanager
async def one_down() -> AsyncGenerator[tuple[Stage, str]]:
    """A third nsqd that had ``clicks`` and ``archive`` is gone, and nsqlookupd has forgotten it."""
    async with stage() as here:
        async with nsq.embedded.nsqd(lookupd_tcp_addresses=[here.lookupd.tcp_address]) as third:
            name = third.http_url.removeprefix("http://")
            async with nsq.http.Nsqd(third.http_url) as http:
                await http.create_topic("clicks")
                await http.create_channel("clicks", "archive")
            await here.until_page("/topics/clicks/archive", name)
        await here.until_page("/nodes?filter=down", name)
        await until_registered(here.lookupd, "clicks", 2)
        yield here, name


@pytest.mark.parametrize("channel", ["", "archive"])
async def test_an_nsqd_that_is_down_keeps_what_it_has(channel: str) -> None:
    kind = "channel" if channel else "topic"
    for action in ("delete", "empty", "pause"):
        async with one_down() as (here, name):
            reply = await here.confirm(action=action, topic="clicks", channel=channel)
            assert re.search(rf"{name} not known: \S", " ".join(rows(reply)))
            assert f"{name} does not answer now, and had the {kind} before." in text(reply)
            assert "repeat this once it answers" in text(reply)
            typed = (channel or "clicks") if action != "pause" else ""
            reply = await here.act(action=action, topic="clicks", channel=channel, typed=typed)
            assert reply.status_code == 200
            assert "in part only" in title(reply)
            assert [row for row in rows(reply) if row.startswith(f"nsqd {name} failed It was not reached: ")]
            assert "Repeat this once the cause is gone." in text(reply)
            assert (f"What an nsqd still has of {kind}" in text(reply)) == (action == "delete")


async def test_what_a_silent_nsqd_never_had_is_no_failure() -> None:
    async with one_down() as (here, name):
        async with nsq.http.Nsqd(here.nsqds[0].http_url) as http:
            await http.create_channel("clicks", "extra")
        for each in ({"topic": "clicks", "channel": "extra"}, {"topic": "other"}):
            assert name not in text(await here.confirm(action="delete", **each))
        reply = await here.act(action="delete", topic="clicks", channel="extra")
        assert title(reply) == "Channel extra of topic clicks was deleted."


async def test_actions_reach_a_topic_that_is_tombstoned() -> None:
    async with stage() as here:
        await here.until_page("/topics/clicks/archive", *here.names)
        async with nsq.http.Nsqlookupd(here.lookupd.http_url) as http:
            for name in here.names:
                await http.tombstone_topic("clicks", name)
            assert (await http.lookup("clicks")).producers == ()
        reply = await here.confirm(action="delete", topic="clicks", channel="archive")
        assert "6 messages will be lost." in text(reply)
        assert "before" not in text(reply)
        reply = await here.act(action="delete", topic="clicks", channel="archive", typed="archive")
        assert rows(reply)[1:] == [f"nsqd {name} done deleted" for name in sorted(here.names)]
        # No poll has seen yet that the topic is gone from the first nsqd.
        async with nsq.http.Nsqd(here.nsqds[0].http_url) as first:
            await first.delete_topic("clicks")
        reply = await here.act(action="pause", topic="clicks")
        assert rows(reply) == [f"nsqd {here.names[1]} done paused"]


async def test_what_has_come_meanwhile_is_asked_about_again() -> None:
    async with stage() as here:
        on = {"action": "empty", "topic": "clicks", "channel": "archive", "typed": "archive"}
        reply = await here.confirm(action="empty", topic="clicks", channel="archive")
        assert '<input type="hidden" name="messages" value="6">' in reply.text
        async with nsq.http.Nsqd(here.nsqds[0].http_url) as http:
            await http.publish_many("clicks", [b"x"] * 500)
        reply = await here.act(**on, messages="6")
        assert reply.status_code == 409
        assert "506 messages would be lost now, and 6 when you were asked." in text(reply)
        assert "506 messages will be lost." in text(reply)
        assert '<input type="hidden" name="messages" value="506">' in reply.text
        async with nsq.http.Nsqd(here.nsqds[0].http_url) as http:
            await http.publish_many("clicks", [b"x"] * 100)  # a few more make no difference
        assert (await here.act(**on, messages="506")).status_code == 200
        assert [topics[0].channels[0].depth for topics in await here.topics()] == [0, 0]


async def test_nobody_has_it() -> None:
    async with stage() as here:
        reply = await here.confirm(action="delete", topic="none")
        assert reply.status_code == 404
        assert "No server has this topic any more" in text(reply)
        reply = await here.act(action="delete", topic="none", typed="none")
        assert (reply.status_code, title(reply)) == (200, "Nothing was done: no server has topic none.")
        await here.act(action="create", topic="idle")
        reply = await here.confirm(action="delete", topic="idle")
        assert "No nsqd has it. Only the nsqlookupds forget it." in text(reply)
        reply = await here.confirm(action="pause", topic="idle")
        assert "No nsqd has it, so there is nothing to do." in text(reply)
        assert 'type="submit"' not in reply.text


async def test_nobody_answers() -> None:
    application = app(DEAD, options=AdminOptions(poll_interval=0.05, timeout=1.0))
    async with application, talking(application) as client:
        reply = await client.get("/confirm?action=delete&topic=t")
        assert reply.status_code == 502
        assert "No server says which nsqds have the topic" in text(reply)
        for typed in ("", "t"):
            reply = await client.post("/actions", data={"action": "delete", "topic": "t", "typed": typed})
            assert reply.status_code == 502
            assert title(reply) == "Nothing is known to have been done: 1 server failed."
            assert f"nsqlookupd {DEAD} failed It did not say which nsqds have the topic" in rows(reply)[0]


async def test_what_can_be_lost_has_to_be_typed() -> None:
    async with stage() as here:
        for typed in ("", "click", "CLICKS"):
            reply = await here.act(action="delete", topic="clicks", typed=typed)
            assert reply.status_code == 409
            assert title(reply) == "Delete topic clicks?"
            assert ("What you typed is not clicks" if typed else "Type clicks to confirm") in text(reply)
            assert "hx-trigger" not in reply.headers
        assert [len(topics) for topics in await here.topics()] == [1, 1]
        assert (await here.act(action="delete", topic="clicks", typed=" clicks ")).status_code == 200
        assert await here.topics() == [[], []]


async def test_a_server_that_does_not_say_what_it_has_may_have_something_to_lose() -> None:
    async with stage(DEAD, direct=True) as here:
        for nsqd in here.nsqds:
            async with nsq.http.Nsqd(nsqd.http_url) as http:
                await http.empty_channel("clicks", "archive")
        assert (await here.act(action="delete", topic="clicks")).status_code == 409


async def test_a_form_that_is_sent_twice_acts_once() -> None:
    async with stage() as here:
        form = {
            "action": "empty",
            "topic": "clicks",
            "channel": "archive",
            "typed": "archive",
            "number": "n1",
        }
        replies: list[httpx.Response] = []

        async def send() -> None:
            replies.append(await here.act(**form))

        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(send)
        assert {reply.text for reply in replies} == {replies[0].text}
        async with nsq.http.Nsqd(here.nsqds[0].http_url) as http:
            await http.publish("clicks", b"later")
            await here.act(**form)
            assert (await http.stats(topic="clicks")).topics[0].channels[0].depth == 1
            await here.act(**{**form, "number": "n2"})
            assert (await http.stats(topic="clicks")).topics[0].channels[0].depth == 0


async def test_names_are_explained() -> None:
    async with stage() as here:
        for topic, channel, what in (
            ("", "", "The topic has no name."),
            ("a b", "", "The name of the topic is not valid."),
            ("t", "a/b", "The name of the channel is not valid."),
            ("x" * 65, "", "The name of the topic is not valid."),
        ):
            reply = await here.act(action="create", topic=topic, channel=channel)
            assert reply.status_code == 400
            assert what in text(reply)
            assert f'value="{topic}"' in reply.text
        for form in (
            {"action": "explode", "topic": "t"},
            {"action": "tombstone", "topic": "t"},
            {"action": "tombstone", "topic": "t", "channel": "c", "node": "n"},
            {"action": "pause", "topic": "t", "node": "n"},
            {"topic": "t"},
        ):
            assert (await here.act(**form)).status_code == 400
            assert (await here.confirm(**form)).status_code == 400


async def test_pages_show_soon_what_was_done() -> None:
    async with stage(poll_interval=60.0) as here:
        assert 'title="6 messages"' in (await here.client.get("/")).text
        await here.act(action="empty", topic="clicks", channel="archive", typed="archive")
        with anyio.fail_after(10):
            while 'title="6 messages"' in (await here.client.get("/")).text:  # noqa: ASYNC110 - as a viewer
                await anyio.sleep(0.05)


async def test_a_confirmation_without_scripts_leads_to_the_page() -> None:
    async with stage() as here:
        del here.client.headers["HX-Request"]
        reply = await here.confirm(action="delete", topic="clicks")
        assert (reply.status_code, reply.headers["location"]) == (303, "/topics/clicks")
        reply = await here.confirm(action="delete", topic="//evil.example/")
        assert reply.headers["location"] == "/topics/%2F%2Fevil.example%2F"
