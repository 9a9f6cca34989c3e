"""The auth secret: nsqds that were given get it, and those that only an nsqlookupd names do not."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import anyio
import pytest

import nsq_anyio as nsq
from nsq_anyio.admin import AdminOptions
from nsq_anyio.admin.messages.messages import Messages
from nsq_anyio.admin.upstream import Upstream
from nsq_anyio.dead_letters import Filter
from nsq_anyio.embedded import Authorization, AuthRequest, AuthState
from nsq_anyio.monitoring import Watch
from nsq_anyio.tasks import background_tasks
from tests.tls_files import TLSFiles

from .stage import ended

pytestmark = pytest.mark.anyio

SECRET = "s3cret"


@dataclass
class Demanding:
    """An nsqd that demands AUTH, and an nsqlookupd that names it.

    :ivar secrets: the secrets that it was sent
    """

    files: TLSFiles
    secrets: list[str] = field(default_factory=list[str])
    nsqlookupd: str = ""
    nsqd: str = ""

    def authorize(self, request: AuthRequest) -> AuthState:
        self.secrets.append(request.secret)
        return AuthState([Authorization(topic=".*", channels=[".*"], permissions=["subscribe", "publish"])])

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        async with (
            nsq.embedded.nsqlookupd() as lookupd,
            nsq.embedded.nsqd(
                lookupd_tcp_addresses=[lookupd.tcp_address],
                broadcast_address="127.0.0.1",
                options=nsq.embedded.NsqdOptions(
                    auth=self.authorize,
                    tls_cert=self.files.certificate_file,
                    tls_key=self.files.private_key_file,
                ),
            ) as nsqd,
            nsq.http.Nsqd(nsqd.http_url) as http,
            nsq.http.Nsqlookupd(lookupd.http_url) as lookup,
        ):
            self.nsqlookupd, self.nsqd = lookupd.http_url, nsqd.http_url
            await http.create_topic("clicks")
            await http.create_channel("clicks", "archive")
            while not await lookup.channels("clicks"):  # noqa: ASYNC110 - nsqlookupd tells nobody
                await anyio.sleep(0.01)
            yield


async def watch(on: Demanding, *, found: bool, tls: nsq.TLSOptions | bool, may_find: bool = False) -> str:
    """Watch the topic, and list its letters; return why not, or an empty text."""
    on.secrets.clear()
    connection = nsq.ConnectionOptions(auth_secret=SECRET, tls=tls)
    given = AdminOptions(connection=connection, auth_discovered=may_find)
    upstream = Upstream((on.nsqlookupd,) if found else (), () if found else (on.nsqd,), given)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(upstream.opened())
        tasks = await stack.enter_async_context(background_tasks())
        polls = Watch(upstream, interval=0.05)
        tasks.start_soon(polls.run)
        await polls.after(None)
        messages = Messages.of(await stack.enter_async_context(background_tasks()), polls, upstream, given)
        async with messages.tails.watching("clicks", lambda _: "") as tail:
            while not (tail.state.connected or tail.state.left_out or tail.state.is_over):
                await tail.changed()
            problems = [tail.state.problem] + [reason for _, reason in tail.state.left_out]
        if not (problem := "".join(problems)):  # otherwise, a job would wait for ten seconds
            job = messages.jobs.start("clicks", "archive", "list", Filter())
            await ended(job)
            assert (job.problem, job.notes) == ("", [])
        return problem


async def test_who_is_sent_the_secret(tls_files: TLSFiles) -> None:
    on = Demanding(tls_files)
    own = nsq.TLSOptions(ca_file=tls_files.ca_file)
    unverified = nsq.TLSOptions(verify=False)
    with anyio.fail_after(60):
        async with on.serving():
            for found, tls, may_find in (
                (False, False, False),
                (False, unverified, False),
                (True, own, False),
                (True, False, True),
            ):
                assert await watch(on, found=found, tls=tls, may_find=may_find) == ""
                assert set(on.secrets) == {SECRET}
            for tls in (False, unverified):
                assert "use --auth-discovered" in await watch(on, found=True, tls=tls)
                assert on.secrets == []
