"""Litestar: a producer and a consumer for as long as the application runs.

Run it with::

    pip install nsq-anyio litestar uvicorn
    NSQD=127.0.0.1:4150 uvicorn litestar_shop:app
"""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import anyio
from litestar import Litestar, post
from litestar.datastructures import State
from vital import vital

import nsq_anyio as nsq

NSQD = os.environ["NSQD"]


@asynccontextmanager
async def lifespan(app: Litestar) -> AsyncGenerator[None]:
    """Publish and consume. At the end, running handlers may finish before the producer closes."""
    stop = anyio.Event()
    with vital():
        async with nsq.produce(nsqd=NSQD) as producer, anyio.create_task_group() as tasks:

            async def bill(message: nsq.Message) -> None:
                await producer.publish("bills", b"bill for " + message.payload)

            # The server handles signals, and leaves this block.
            serve = partial(nsq.serve, nsqd=NSQD, concurrency=4, stop=stop, handle_signals=False)
            tasks.start_soon(serve, bill, "orders", "billing")
            app.state.producer = producer
            yield
            stop.set()


@post("/orders/{number:int}", status_code=202)
async def order(number: int, state: State) -> None:
    """Accept an order: nsqd has it when the answer is sent."""
    producer: nsq.Producer = state.producer
    await producer.publish("orders", b"%d" % number)


app = Litestar([order], lifespan=[lifespan])
