"""What AsyncAPI tells of a broker."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from faststream.specification import AsyncAPI
from faststream_nsq import NsqBroker, NsqRouter
from pydantic import BaseModel


class Click(BaseModel):
    page: int


APP = """
from faststream import FastStream
from faststream_nsq import NsqBroker

broker = NsqBroker("127.0.0.1:4150")
app = FastStream(broker)

@broker.subscriber("clicks", "archive")
async def store(page: int) -> None: ...
"""


def schema_of(broker: NsqBroker, version: str) -> Any:
    api = AsyncAPI(broker, schema_version=version)
    return json.loads(api.to_specification().to_json())


def broker_with_endpoints() -> tuple[NsqBroker, list[object]]:
    broker = NsqBroker(["nsqd-1:4150", "nsqd-2:4150"], description="our nsqds")
    router = NsqRouter("v1.")

    @router.subscriber("clicks", "archive")
    @router.publisher("stored", description="what was stored")
    async def store(click: Click) -> int:
        """Store a click."""
        return click.page

    @router.subscriber("clicks", "count", batch=True, title="Counter")
    async def count(clicks: list[Click]) -> None: ...

    @router.subscriber("clicks", "secret", include_in_schema=False)
    async def secret(clicks: list[Click]) -> None: ...

    publisher = router.publisher("audit", schema=Click)
    broker.include_router(router)
    return broker, [store, count, secret, publisher]


def test_version_3() -> None:
    broker, _endpoints = broker_with_endpoints()
    schema = schema_of(broker, "3.0.0")
    assert [server["host"] for server in schema["servers"].values()] == ["nsqd-1:4150", "nsqd-2:4150"]
    assert {server["protocol"] for server in schema["servers"].values()} == {"nsq"}
    addresses = {name: channel["address"] for name, channel in schema["channels"].items()}
    assert addresses == {
        "v1.clicks:archive:Store": "v1.clicks",
        "Counter": "v1.clicks",
        "v1.stored:Publisher": "v1.stored",
        "v1.audit:Publisher": "v1.audit",
    }
    channel = schema["channels"]["v1.clicks:archive:Store"]
    assert channel["description"] == "Store a click."
    assert schema["components"]["schemas"]["Click"]["properties"]["page"]["type"] == "integer"
    actions = sorted(operation["action"] for operation in schema["operations"].values())
    assert actions == ["receive", "receive", "send", "send"]


def test_version_2() -> None:
    broker, _endpoints = broker_with_endpoints()
    schema = schema_of(broker, "2.6.0")
    # Its verbs are those of the clients.
    assert set(schema["channels"]["v1.clicks:archive:Store"]) >= {"publish", "servers"}
    assert {server["url"] for server in schema["servers"].values()} == {
        "nsq://nsqd-1:4150",
        "nsq://nsqd-2:4150",
    }


def test_the_command_that_generates_it(tmp_path: Path) -> None:
    (tmp_path / "service.py").write_text(APP)
    command = [sys.executable, "-m", "faststream", "docs", "gen", "service:app", "--out", "api.json"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    schema = json.loads((tmp_path / "api.json").read_text())
    assert "clicks:archive:Store" in schema["channels"]
