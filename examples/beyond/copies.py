"""Payments that outlive an nsqd: ``copies.py pay AMOUNT`` stores two, ``copies.py handle`` handles one."""

import os
import sys
from functools import partial
from uuid import uuid4

import anyio

import nsq_anyio as nsq


async def pay(amount: str) -> None:
    """Publish until two nsqds have the payment; all copies of all tries have one id."""
    key = uuid4().hex
    async with nsq.produce(os.environ["NSQD"].split(","), copies=2) as producer:
        while True:
            try:
                return await producer.publish("payments", amount, headers={"nsq-id": key})
            except nsq.PublishError as error:  # with a part of the copies: nsq.FewerCopies
                print("trying again:", error)
                await anyio.sleep(1.0)


async def handle_payment(message: nsq.Message) -> None:
    """Handle a payment, whichever copy comes first."""
    print("paid", message.payload.decode(), flush=True)


async def handle() -> None:
    """Handle payments until SIGINT or SIGTERM."""
    store = nsq.deduplication.SQLiteStore(os.environ["HANDLED"], window=24 * 3600)
    await nsq.serve(
        handle_payment,
        "payments",
        "pay",
        nsqd=os.environ["NSQD"].split(","),
        concurrency=10,
        deduplicate=nsq.Deduplicate(store),
    )


if __name__ == "__main__":
    if sys.argv[1] == "handle":
        anyio.run(handle)
    else:
        anyio.run(partial(pay, sys.argv[2]))
