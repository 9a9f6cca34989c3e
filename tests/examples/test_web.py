"""The web applications publish, consume, drain, and do not live on without their consumer."""

from __future__ import annotations

import signal
import subprocess

import httpx
import pytest

import nsq_anyio as nsq
from nsq_anyio.embedded import AuthState
from nsq_anyio.testing import Nsqd, cluster_in_thread

from .programs import LIMIT, listening, running

pytestmark = pytest.mark.timeout(180)

ASGI = ["fastapi_shop:app", "litestar_shop:app"]
WSGI = ["flask_shop:app", "django_shop:application"]


@pytest.mark.parametrize("application", ASGI)
def test_an_asgi_application_publishes_and_consumes(application: str, nsqd: Nsqd) -> None:
    with listening() as (listener, url):
        server = ["uvicorn", f"--fd={listener.fileno()}", application]
        with running(server, nsqd.tcp_address, listener=listener) as process:
            for number in range(3):
                assert httpx.post(f"{url}/orders/{number}", timeout=LIMIT).status_code == 202
            bills = nsqd.sync.messages("bills", count=3, timeout=LIMIT)
            assert httpx.get(f"{url}/readyz", timeout=LIMIT).status_code == 200
            process.send_signal(signal.SIGTERM)
            process.wait(LIMIT)
    assert sorted(bill.payload for bill in bills) == [b"bill for 0", b"bill for 1", b"bill for 2"]
    nsqd.sync.wait_until_empty("orders", "billing")


@pytest.mark.parametrize("application", ASGI)
def test_an_asgi_application_ends_when_nsqd_refuses_it_for_good(application: str) -> None:
    options = nsq.embedded.NsqdOptions(auth=lambda _: AuthState(authorizations=(), ttl=60))
    with (
        cluster_in_thread(nsqds=1, nsqlookupds=0, nsqd_options=options) as cluster,
        listening() as (listener, _),
        running(
            ["uvicorn", f"--fd={listener.fileno()}", application],
            cluster.tcp_addresses[0],
            listener=listener,
        ) as process,
    ):
        process.wait(LIMIT)  # it was not told to end


@pytest.mark.parametrize("preload", ["--preload", "--no-control-socket"], ids=["preloaded", "each"])
@pytest.mark.parametrize("application", WSGI)
def test_a_wsgi_application_publishes_from_each_worker(application: str, preload: str, nsqd: Nsqd) -> None:
    with listening() as (listener, url):
        bind = f"--bind=fd://{listener.fileno()}"
        server = ["gunicorn", preload, "--workers=2", "--threads=2", bind, application]
        with running(server, nsqd.tcp_address, listener=listener) as process:
            for number in range(6):
                assert httpx.post(f"{url}/orders/{number}", timeout=LIMIT).status_code == 202
            process.send_signal(signal.SIGTERM)
            assert process.wait(LIMIT) == 0
    orders = {order.payload for order in nsqd.sync.messages("orders", count=6)}
    assert orders == {b"%d" % number for number in range(6)}


WORKER = ["nsq_anyio", "run", "billing:bill", "--topic=orders", "--channel=billing", "--concurrency=2"]


@pytest.mark.parametrize("application", [*ASGI, "the worker"])
@pytest.mark.nsqd_options(msg_timeout=2.0)
def test_a_process_that_is_killed_in_a_task_loses_nothing(application: str, nsqd: Nsqd) -> None:
    server = ["uvicorn", "--port=0", application]
    if application == "the worker":
        server = [*WORKER, f"--nsqd-tcp-address={nsqd.tcp_address}"]
    nsqd.sync.publish("orders", b"1")
    nsqd.sync.publish("orders", b"2")
    with running(server, nsqd.tcp_address, env={"SECONDS": "100"}) as process:
        kill_in_both_tasks(process, nsqd)
    with running(server, nsqd.tcp_address) as process:
        bills = nsqd.sync.messages("bills", count=2, timeout=LIMIT)
        nsqd.sync.wait_until_empty("orders", "billing", timeout=LIMIT)
        process.send_signal(signal.SIGTERM)
        process.wait(LIMIT)
    assert {bill.payload for bill in bills} >= {b"bill for 1", b"bill for 2"}
    assert timed_out(nsqd) >= 2  # nobody had answered them


def kill_in_both_tasks(process: subprocess.Popen[bytes], nsqd: Nsqd) -> None:
    nsqd.sync.wait_for_depth("orders", "billing", 0, timeout=LIMIT)  # both are being billed
    process.kill()
    assert process.wait(LIMIT) == -signal.SIGKILL


def timed_out(nsqd: Nsqd) -> int:
    """How many messages nsqd has delivered in vain."""
    stats = httpx.get(f"{nsqd.http_url}/stats?format=json&topic=orders&channel=billing").json()
    (topic,) = stats["topics"]
    (channel,) = topic["channels"]
    return int(channel["timeout_count"])
