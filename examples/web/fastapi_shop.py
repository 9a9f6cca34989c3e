"""FastAPI, and Starlette alike: a producer and a consumer for as long as the application runs.

Run it with::

    pip install nsq-anyio fastapi uvicorn
    NSQD=127.0.0.1:4150 uvicorn fastapi_shop:app
"""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import TypedDict

import anyio
from fastapi import FastAPI, Request
from vital import vital

import nsq_anyio as nsq

NSQD = os.environ["NSQD"]


class State(TypedDict):
    """What the lifespan gives to each request."""

    producer: nsq.Producer


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncGenerator[State]:
    """Publish and consume. At the end, running handlers may finish before the producer closes."""
    stop = anyio.Event()
    with vital():
        async with nsq.produce(nsqd=NSQD) as producer, anyio.create_task_group() as tasks:

            async def bill(message: nsq.Message) -> None:
                await producer.publish("bills", b"bill for " + message.payload)

            # The server handles signals, and leaves this block.
            serve = partial(nsq.serve, nsqd=NSQD, concurrency=4, stop=stop, handle_signals=False)
            tasks.start_soon(serve, bill, "orders", "billing")
            yield {"producer": producer}
            stop.set()


app = FastAPI(lifespan=lifespan)


@app.post("/orders/{number}", status_code=202)
async def order(number: int, request: Request) -> None:
    """Accept an order: nsqd has it when the answer is sent."""
    producer: nsq.Producer = request.state.producer
    await producer.publish("orders", b"%d" % number)
