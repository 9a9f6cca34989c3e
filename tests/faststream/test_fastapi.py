"""FastStream's own plugin for FastAPI, which takes any broker."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated

import anyio
import httpx
import pytest
import uvicorn
from fastapi import Body, Depends, FastAPI
from faststream_fastapi import FastStreamAPI
from faststream_nsq import NsqBroker
from pydantic import BaseModel

from ..interop.cluster import Server
from ..interop.observe import until

pytestmark = pytest.mark.anyio


class Click(BaseModel):
    page: int


@asynccontextmanager
async def serving(application: FastStreamAPI) -> AsyncGenerator[httpx.AsyncClient]:
    """Serve an application with its lifespan, and yield a client of it."""
    server = uvicorn.Server(uvicorn.Config(application, port=0, log_config=None))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.serve)
        await until(lambda: server.started)
        ((host, port),) = [each.getsockname() for of in server.servers for each in of.sockets]
        async with httpx.AsyncClient(base_url=f"http://{host}:{port}") as client:
            yield client
        server.should_exit = True


async def test_endpoints_publish_and_handlers_have_dependencies(nsqd: Server, topic: str) -> None:
    broker = NsqBroker(nsqd.tcp_address, logger=None)
    application = FastAPI()
    pages: list[int] = []

    def store() -> list[int]:
        return pages

    @broker.subscriber(topic, "c")
    async def handle(click: Annotated[Click, Body()], stored: Annotated[list[int], Depends(store)]) -> None:
        stored.append(click.page)

    @application.post("/clicks", status_code=202)
    async def add(click: Click) -> None:
        await broker.publish(click, topic)

    @application.get("/healthz")
    async def healthz() -> bool:
        return await broker.ping()

    api = FastStreamAPI(broker, application=application, asyncapi_path="/asyncapi", safe_connection=True)
    async with serving(api) as client:
        assert (await client.get("/healthz")).json() is True
        assert (await client.post("/clicks", json={"page": 7})).status_code == 202
        assert (await client.post("/clicks", json={"page": "no"})).status_code == 422
        await until(lambda: pages == [7])
        assert f"{topic}:c:Handle" in (await client.get("/asyncapi.json")).text
    assert (await nsqd.channel(topic, "c")).in_flight_count == 0
