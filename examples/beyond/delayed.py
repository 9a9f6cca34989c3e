"""Reminders at any time: ``delayed.py keep`` is the service, ``delayed.py remind TEXT TIME`` asks for one."""

import os
import sys
from datetime import datetime
from functools import partial

import anyio

import nsq_anyio as nsq


async def keep() -> None:
    """Keep messages in a file until their time, until this is ended in whatever way."""
    async with nsq.delays(os.environ["DELAYS"], nsqd=os.environ["NSQD"]):
        await anyio.sleep_forever()


async def remind(text: str, at: datetime) -> None:
    """Publish a reminder; when this returns, nsqd has it, and gives it to the service."""
    async with nsq.produce(os.environ["NSQD"], delays="nsq.delays") as producer:
        await producer.publish("reminders", text, at=at, durable=True)


if __name__ == "__main__":
    if sys.argv[1] == "keep":
        anyio.run(keep)
    else:
        _, _, text, time = sys.argv
        anyio.run(partial(remind, text, datetime.fromisoformat(time).astimezone()))
