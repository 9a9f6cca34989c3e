"""The collector without prometheus_client, after a fork, and after the end of an event loop."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path
from threading import Thread

import anyio
import pytest

from nsq_anyio.instrumentation.prometheus.collector import Member
from nsq_anyio.instrumentation.prometheus.samples import Samples

from ..sync.conftest import running_nsqd

ROOT = Path(__file__).parent.parent.parent


def python(code: str, *arguments: str) -> str:
    """Run code in a process of its own, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), *arguments],
        check=False,
        capture_output=True,
        text=True,
        timeout=50,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_prometheus_client_the_error_names_the_extra() -> None:
    output = python("""
        import sys
        sys.modules["prometheus_client"] = None
        import nsq_anyio
        try:
            import nsq_anyio.instrumentation.prometheus
        except ImportError as error:
            print(error.name, error)
    """)
    assert output.startswith("prometheus_client nsq_anyio.instrumentation.prometheus needs prometheus-client")
    assert "pip install 'nsq-anyio[prometheus]'" in output


def test_the_package_does_not_import_it() -> None:
    output = python("""
        import sys
        import nsq_anyio
        nsq_anyio.consume, nsq_anyio.produce, nsq_anyio.sync.consume
        print("prometheus_client" in sys.modules)
    """)
    assert output == "False\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_a_forked_child_shows_nothing_of_its_parent() -> None:
    code = """
        import os, sys, warnings
        warnings.simplefilter("ignore", DeprecationWarning)  # of a fork beside threads
        import nsq_anyio as nsq
        from prometheus_client import CollectorRegistry
        from nsq_anyio.instrumentation.prometheus import NSQCollector

        registry = CollectorRegistry()
        collector = NSQCollector(registry)

        def shown():
            return registry.get_sample_value("nsq_producer_messages_waiting")

        with nsq.sync.produce(sys.argv[1]) as producer:
            collector.add(producer)
            before = shown()
            child = os.fork()
            if not child:
                os._exit(0 if shown() is None else 1)
            _, status = os.waitpid(child, 0)
            print(before, os.waitstatus_to_exitcode(status), shown())
    """
    with running_nsqd() as nsqd:
        assert python(code, nsqd.tcp_address) == "0 0 0\n"


class Unended:
    """Reads a block that its event loop has left in the middle."""

    channel = ()
    has_ended = False

    def read(self) -> Samples:
        return Samples()


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_an_event_loop_that_ends_before_a_block(backend: str) -> None:
    async def begin() -> Member:
        return Member(Unended)

    member = anyio.run(begin, backend=backend)
    assert not member.is_last
    thread = Thread(target=lambda: member.request().result(0))
    thread.start()
    thread.join()
    assert member.is_last
