"""A program that has not set up logging shows warnings on stderr, which say why no message comes."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys

import anyio

import nsq_anyio as nsq


async def take(**source):
    with anyio.move_on_after(10):
        async with nsq.consume("clicks", "archive", **source) as consumer:
            async for message in consumer:
                print(message.body.decode())


async def main():
    async with nsq.embedded.nsqd() as nsqd, nsq.embedded.nsqlookupd() as nsqlookupd:
        async with nsq.produce(nsqd=nsqd.tcp_address) as producer:
            await producer.publish_many("clicks", [b"first", b"second"])
        await take(nsqd=nsqd.tcp_address)
        print("unanswered", file=sys.stderr)
        await take(nsqlookupd=nsqlookupd.http_url)
        print("unknown", file=sys.stderr)
    await take(nsqlookupd="http://127.0.0.1:1")


name, options = nsq.testing.virtual_time(sys.argv[1])
anyio.run(main, backend=name, backend_options=options)
"""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_it_says_what_is_wrong(backend: str) -> None:
    command = [sys.executable, "-c", PROGRAM, backend]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=True)
    assert done.stdout.split() == ["first"]
    unanswered, _, rest = done.stderr.partition("unanswered\n")
    unknown, _, unreachable = rest.partition("unknown\n")
    (line,) = unanswered.splitlines()
    assert line.startswith(
        "clicks/archive: a task waits for a message, but 1 message is unanswered, the last for "
    )
    assert line.endswith("to work on more at a time, raise max_in_flight")
    (line,) = unknown.splitlines()
    assert line.startswith("topic clicks is not known yet, next poll in ")
    first, second = unreachable.splitlines()
    for line in (first, second):
        assert line.startswith("lookup of clicks failed: http://127.0.0.1:1/lookup?topic=clicks: ")
