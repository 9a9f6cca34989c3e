"""Litestar: a producer and a consumer for as long as the application runs.

Run it, where nsq-anyio is installed, with::

    pip install litestar uvicorn
    NSQD=127.0.0.1:4150 uvicorn litestar_shop:app
"""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial

import anyio
from litestar import Litestar, Response, get, post
from litestar.datastructures import State

import nsq_anyio as nsq


@asynccontextmanager
async def lifespan(app: Litestar) -> AsyncGenerator[None]:
    """Publish and consume. At the end, running handlers may finish before consumer and producer close."""
    nsqd = os.environ["NSQD"]
    stop = anyio.Event()
    with nsq.vital():
        async with (
            nsq.produce(nsqd=nsqd) as producer,
            nsq.consume("orders", "billing", nsqd=nsqd) as consumer,
            anyio.create_task_group() as tasks,
        ):

            async def bill(message: nsq.Message) -> None:
                await anyio.sleep(float(os.environ.get("SECONDS", "0")))  # a slow bank
                await producer.publish("bills", b"bill for " + message.payload)

            # The server handles signals, and leaves this block.
            serve = partial(nsq.serve, concurrency=4, stop=stop, handle_signals=False)
            tasks.start_soon(serve, {consumer: bill})
            app.state.producer = producer
            app.state.consumer = consumer
            yield
            stop.set()


@post("/orders/{number:int}", status_code=202)
async def order(number: int, state: State) -> None:
    """Accept an order: nsqd has it when the answer is sent."""
    producer: nsq.Producer = state.producer
    await producer.publish("orders", b"%d" % number)


@get("/readyz")
async def readyz(state: State) -> Response[None]:
    """Answer 200 while the consumer is subscribed on an nsqd, otherwise 503."""
    consumer: nsq.Consumer = state.consumer
    return Response(None, status_code=200 if consumer.connections else 503)


app = Litestar([order, readyz], lifespan=[lifespan])
