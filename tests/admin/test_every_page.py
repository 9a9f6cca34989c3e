"""What each page shows of a view, whatever the servers call things, and however large the cluster is."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest

from nsq_anyio.admin.pages.formats import UNKNOWN
from nsq_anyio.http import Latency, NsqlookupdSurvey, Percentile, Survey

from .stage import Stage, channel, node, nsqd, survey, topic

pytestmark = pytest.mark.anyio

PATHS = ("/", "/topics", "/nodes", "/lookup", "/counter")
LOOKUP = "http://lookup-1:4161"


def rows(page: str) -> list[str]:
    """The names of the rows of all tables, in order."""
    return re.findall(r'<th scope="row">(?:<a [^>]*>|<span [^>]*>)([^<]*)', page)


async def test_the_overview_says_what_is_stuck_first() -> None:
    stage = Stage(
        survey(nsqd(1, topic("t", channel("c", depth=1234))), nsqd(2, error="no answer within 10 s")),
    )
    page = await stage.text("/")
    assert "No consumer is connected, and 1,234 messages wait." in page
    assert "This nsqd does not answer: no answer within 10 s." in page
    assert page.index("does not answer") < page.index("No consumer") < page.index("Busiest topics")
    assert "1 of 2 nsqds did not answer" in page
    assert "<title>(2) Overview" in page


async def test_a_cluster_without_problems_or_without_nsqds_says_so() -> None:
    assert "Nothing is stuck" in await Stage(survey(nsqd(1))).text("/")
    empty = Stage(survey())
    assert "No nsqd is known yet" in await empty.text("/")
    assert "There is no topic yet" in await empty.text("/topics")
    assert "No nsqd is known." in await empty.text("/nodes")
    assert "No nsqlookupd was given" in await empty.text("/lookup")


async def test_problems_of_a_kind_are_summed_up() -> None:
    topics = [topic(f"t{number:02d}", depth=number) for number in range(20)]
    page = await Stage(survey(nsqd(1, *topics))).text("/")
    assert page.count("It has no channel") == 4
    assert "and 15 more: no channels" in page
    page = await Stage(survey(nsqd(1, *topics[:6]))).text("/")
    assert page.count("It has no channel") == 5
    assert "more:" not in page


async def test_topics_are_searched_filtered_and_sorted() -> None:
    stage = Stage(
        survey(
            nsqd(
                1,
                topic("clicks", channel("a", depth=5, client_count=1)),
                topic("click_log", depth=9, backend_depth=4),
                topic("orders", channel("b", paused=True)),
                topic("tail#ephemeral", channel("c", client_count=2)),
            )
        )
    )
    assert rows(await stage.text("/topics")) == ["click_log", "clicks", "orders", "tail#ephemeral"]
    assert rows(await stage.text("/topics?sort=-depth"))[:2] == ["click_log", "clicks"]
    assert rows(await stage.text("/topics?sort=depth"))[-1] == "click_log"
    assert rows(await stage.text("/topics?q=CLICK+log")) == ["click_log"]
    assert rows(await stage.text("/topics?filter=ephemeral")) == ["tail#ephemeral"]
    assert rows(await stage.text("/topics?filter=disk")) == ["click_log"]
    assert rows(await stage.text("/topics?filter=no-consumers&q=o")) == ["click_log", "orders"]
    assert rows(await stage.text("/topics?filter=stuck")) == ["click_log"]
    assert "No topic matches “zzz”" in await stage.text("/topics?q=zzz")
    assert 'href="/topics/tail%23ephemeral"' in await stage.text("/topics")


async def test_a_topic_has_its_channels_and_nsqds() -> None:
    latency = Latency(7, (Percentile(0.99, 1.5), Percentile(0.5, 0.25)))
    first = topic(
        "t", replace(channel("c", depth=3, client_count=1), e2e_processing_latency=latency), depth=2
    )
    first = replace(first, e2e_processing_latency=latency, message_count=10, message_bytes=2500)
    page = await Stage(survey(nsqd(1, first), nsqd(2, topic("t", channel("d"), paused=True)))).text(
        "/topics/t"
    )
    assert rows(page) == ["c", "d", "nsqd-1:4151", "nsqd-2:4151"]
    assert '<span class="tag warn">paused</span>' in page
    assert "99 %" in page
    assert "250 ms" in page
    assert "10 messages of 2.50 kB so far, 250 B each" in page
    assert 'data-history="/history?topic=t"' in page
    assert "nsqd-2:4151 has the topic and not this channel" in page


async def test_paused_channels_are_found_without_messages_too() -> None:
    stage = Stage(
        survey(
            nsqd(1, topic("t", channel("c", paused=True)), topic("u", channel("c"))),
            nsqd(2, topic("t", channel("c")), topic("v", paused=True)),
        )
    )
    assert rows(await stage.text("/topics?filter=paused")) == ["t", "v"]
    assert "1 channel paused" in await stage.text("/topics")
    assert "paused on 1 of 2 nsqds" in await stage.text("/topics/t/c")
    assert '<span class="tag warn">paused</span>' in await stage.text("/topics/v")


async def test_rates_are_those_of_each_nsqd_too() -> None:
    def at(seconds: float, count: int, error: str = "") -> Survey:
        first = nsqd(1, topic("t", channel("c", message_count=count), message_count=count), error=error)
        other = nsqd(2, topic("t", channel("c", message_count=7, depth=7), message_count=7))
        return survey(first, other, seconds=seconds)

    once = await Stage(at(0, 0)).text("/topics")
    assert "Egress/s" in once
    assert re.findall(r'<td class="n zero">(\D)</td>', once)[:2] == [
        UNKNOWN,
        UNKNOWN,
    ]  # until the second poll
    stage = Stage(at(0, 100), at(5, 200))
    assert re.findall(r'<td class="n">([^<]*)</td>', await stage.text("/topics"))[:3] == ["7", "20", "20"]
    for path in ("/topics/t", "/topics/t/c", "/nodes"):
        found = re.findall(r"(nsqd-\d:4151)</a>.*?</tr>", await stage.text(path), re.DOTALL)
        cells = dict(re.findall(r"(nsqd-\d:4151)</a>(.*?)</tr>", await stage.text(path), re.DOTALL))
        assert found == ["nsqd-1:4151", "nsqd-2:4151"]
        assert re.findall(r'<td class="n">([^<]*)</td>', cells["nsqd-1:4151"])[:2] == ["20", "20"]
        assert ">20<" not in cells["nsqd-2:4151"]


async def test_nsqds_that_do_not_answer_are_named_where_they_had_something() -> None:
    before = survey(nsqd(1, topic("t", channel("c"))), nsqd(2, topic("t"), topic("lost")))
    now = survey(nsqd(1, topic("t", channel("c"))), nsqd(2, error="refused"), seconds=5)
    stage = Stage(before, now)
    text = "nsqd-2:4151 does not answer, and had this topic before."
    assert text in await stage.text("/topics/t")
    assert "had this channel before" not in await stage.text("/topics/t/c")
    reply = await stage.get("/topics/lost")
    assert "was on nsqd-2:4151, and no answer comes from there." in reply.body.decode()


async def test_an_empty_window_has_no_latency() -> None:
    empty = Latency(0, (Percentile(0.99, 0.0), Percentile(0.5, 0.0)))
    stats = replace(
        topic("t", replace(channel("c"), e2e_processing_latency=empty)), e2e_processing_latency=empty
    )
    for path in ("/topics/t", "/topics/t/c"):
        page = await Stage(survey(nsqd(1, stats))).text(path)
        assert "nothing was finished within nsqd" in page
        assert not re.search("0 s</(dd|span|td)>", page)
        assert "Latency 99 % · 50 %</th>" in page


async def test_what_is_not_there_says_so() -> None:
    lookup = NsqlookupdSurvey(url=LOOKUP, topics=("registered", "t"))
    stage = Stage(survey(nsqd(1, topic("t", channel("c"))), lookups=[lookup]))
    for path, text in (
        ("/topics/none", "No nsqd that answered has a topic"),
        ("/topics/registered", "nsqlookupd knows the topic"),
        ("/topics/t/none", "has no channel"),
        ("/topics/none/c", "has a topic"),
        ("/nodes/nsqd-9:4151", "No nsqd is known as"),
        ("/nodes/169.254.169.254:80", "No nsqd is known as"),
    ):
        reply = await stage.get(path)
        assert reply.status == 404, path
        assert text in reply.body.decode()
    # A page whose topic is deleted while it is open says so in its place.
    part = await stage.get("/topics/none", hx_request="true")
    assert part.status == 404
    assert b"<html" not in part.body


async def test_a_node_has_its_topics() -> None:
    down = replace(nsqd(2, error="refused"), node=node(2))
    lookup = NsqlookupdSurvey(url=LOOKUP, nodes=(node(1, "t", tombstoned=("t",)),))
    here = replace(nsqd(1, topic("t", channel("c", depth=7))), node=node(1, "t", tombstoned=("t",)))
    stage = Stage(survey(here, down, lookups=[lookup]))
    page = await stage.text("/nodes/nsqd-1:4151")
    assert '<span class="tag">tombstoned</span>' in page
    assert ">c</a>" in page
    assert "2 h" in page
    page = await stage.text("/nodes/nsqd-2:4151")
    assert "does not answer" in page
    assert "What it holds is not known" in page
    assert "lookup-1:4161: missing" in page
    assert rows(await stage.text("/nodes?filter=down")) == ["nsqd-2:4151"]
    assert rows(await stage.text("/nodes?filter=unregistered")) == ["nsqd-2:4151"]


async def test_an_older_version_is_marked() -> None:
    stage = Stage(survey(nsqd(1, version="1.10.0"), nsqd(2, version="1.9.0"), nsqd(3, version="garbage")))
    assert rows(await stage.text("/nodes?filter=outdated")) == ["nsqd-2:4151", "nsqd-3:4151"]


async def test_lookup_tells_who_knows_what() -> None:
    knows = NsqlookupdSurvey(
        url=LOOKUP, nodes=(node(1, "t"), node(2, "gone", tombstoned=("gone",))), topics=("gone", "idle", "t")
    )
    other = NsqlookupdSurvey(url="http://lookup-2:4161", nodes=(node(1),), unusable=("port 0 is not valid",))
    stage = Stage(survey(nsqd(1, topic("t")), nsqd(2), lookups=[knows, other]))
    page = await stage.text("/lookup")
    assert "port 0 is not valid" in page
    assert "1 of 2 is missing from an nsqlookupd" in page
    assert page.count('<span class="tag bad">missing</span>') == 1
    down = replace(other, error="refused", nodes=())
    page = await Stage(survey(nsqd(1, topic("t")), nsqd(2), lookups=[knows, down])).text("/lookup")
    assert "every nsqlookupd that answered knows every nsqd" in page
    assert page.count('<span class="tag">not known</span>') == 2
    # The tombstone, then what is registered and on no nsqd: a tombstoned registration does not count.
    assert rows(page)[-3:] == ["gone", "gone", "idle"]


async def test_the_counter_adds_up() -> None:
    def at(seconds: float, count: int) -> Survey:
        return survey(
            nsqd(1, topic("t", channel("c", message_count=count), message_count=count, message_bytes=100)),
            seconds=seconds,
        )

    stage = Stage(at(0, 1000), at(5, 2000), at(10, 50))  # it restarted in between
    page = await stage.text("/counter")
    assert 'data-count="2050"' in page
    assert "10/s now" in page


HOSTILE = "<script>alert(1)<\\script>\"'><img src=x onerror=alert(1)>\ud800\x00"


async def test_whatever_servers_call_things_is_escaped() -> None:
    lookup = NsqlookupdSurvey(
        url=LOOKUP,
        error=HOSTILE,
        unusable=(HOSTILE,),
        topics=(HOSTILE,),
        nodes=(node(1, HOSTILE, tombstoned=(HOSTILE,)),),
    )
    stats = topic(HOSTILE, channel(HOSTILE, depth=5, client_count=0), depth=4)
    first = nsqd(1, stats, hostname=HOSTILE, version=HOSTILE, health=HOSTILE)
    first = replace(first, node=replace(first.node, broadcast_address=HOSTILE))
    stage = Stage(survey(first, nsqd(2, error=HOSTILE), lookups=[lookup]))
    quoted = (
        "%3Cscript%3Ealert%281%29%3C%5Cscript%3E%22%27%3E%3Cimg%20src%3Dx%20onerror%3Dalert%281%29%3E%3F%00"
    )
    paths = [*PATHS, f"/topics?q={quoted}", f"/nodes?q={quoted}&sort={quoted}&filter={quoted}&page={quoted}"]
    for path in [*paths, "/nodes/nsqd-2:4151", f"/topics/{quoted}", f"/nodes/{quoted}"]:
        page = (await stage.get(path)).body.decode()
        assert "<script>alert" not in page, path
        assert "<img src=x" not in page, path
        assert 'onerror="' not in page
    # Every attribute is quoted, and a name in a path is one segment of it.
    links = re.findall(r'href="([^"]*)"', await stage.text("/topics"))
    assert all(re.fullmatch(r"[-/?=&%.:#0-9A-Za-z_+]*", link) for link in links)


async def test_a_page_of_a_large_cluster_is_small() -> None:
    stage = Stage(*_large_cluster())
    for path in (*PATHS, "/topics/topic-0001", "/nodes/nsqd-1:4151", "/topics?sort=-depth"):
        reply = await stage.get(path)
        assert reply.status == 200
        assert 5_000 < len(reply.body) < 200_000, path


@cache
def _large_cluster() -> list[Survey]:
    names = [f"topic-{number:04d}" for number in range(1000)]
    found: list[Survey] = []
    for seconds in (0, 15):
        topics = [
            topic(
                name, *[channel(f"c{index}", depth=9 + seconds, message_count=seconds) for index in range(2)]
            )
            for name in names
        ]
        nsqds = [nsqd(number, *topics[number % 8 :: 8]) for number in range(80)]
        nodes = tuple(node(number, *names[number % 8 :: 8]) for number in range(80))
        found.append(
            survey(*nsqds, lookups=[NsqlookupdSurvey(url=LOOKUP, nodes=nodes)], seconds=float(seconds))
        )
    return found


async def test_who_may_not_act_sees_a_page_of_its_own() -> None:
    stage = Stage(survey(nsqd(1)), admin_users=["ann"])
    assert (await stage.get("/", x_forwarded_user="ann")).status == 200
    assert (await stage.get("/", x_forwarded_user="bob")).status == 200


async def test_links_stay_below_the_root() -> None:
    stage = Stage(survey(nsqd(1, topic("t", channel("c")))), base_path="/nsq")
    for path in ("/nsq", "/nsq/topics/t", "/nsq/topics/t/c", "/nsq/nodes", "/nsq/lookup", "/nsq/counter"):
        page = (await stage.get(path, root="/host")).body.decode()
        for link in re.findall(r'\s(?:href|src|action|hx-get|data-history)="([^"]*)"', page):
            assert link.startswith(("/host/nsq", "?", "#")), (path, link)


async def test_a_slash_too_many_is_redirected() -> None:
    stage = Stage(survey(nsqd(1)), base_path="/nsq")
    reply = await stage.get("/nsq/topics/", root="/host")
    assert (reply.status, dict(reply.headers)["Location"]) == (301, "/host/nsq/topics")
