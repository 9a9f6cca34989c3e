"""FastAPI, and Starlette alike: a producer and a consumer for as long as the application runs.

Run it, where nsq-anyio is installed, with::

    pip install fastapi uvicorn
    NSQD=127.0.0.1:4150 uvicorn fastapi_shop:app
"""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import TypedDict

import anyio
from fastapi import FastAPI, Request, Response

import nsq_anyio as nsq


class State(TypedDict):
    """What the lifespan gives to each request."""

    producer: nsq.Producer
    consumer: nsq.Consumer


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncGenerator[State]:
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
            yield {"producer": producer, "consumer": consumer}
            stop.set()


app = FastAPI(lifespan=lifespan)


@app.post("/orders/{number}", status_code=202)
async def order(number: int, request: Request) -> None:
    """Accept an order: nsqd has it when the answer is sent."""
    producer: nsq.Producer = request.state.producer
    await producer.publish("orders", b"%d" % number)


@app.get("/readyz")
async def readyz(request: Request) -> Response:
    """Answer 200 while the consumer is subscribed on an nsqd, otherwise 503."""
    consumer: nsq.Consumer = request.state.consumer
    return Response(status_code=200 if consumer.connections else 503)
