"""Looks at the dashboard as browsers do: a stream of events, and the page again after each poll."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import httpx

Event: TypeAlias = tuple[float, dict[str, Any]]


@dataclass(slots=True)
class Looked:
    """What the viewers saw.

    :ivar events: for each poll, when its event came to the first viewer and what it says
    :ivar pages: for each poll, when the last viewer had its page
    :ivar sizes: of the overview, in bytes before compression; 0 if it is not served
    """

    events: dict[int, Event] = field(default_factory=dict[int, Event])
    pages: dict[int, float] = field(default_factory=dict[int, float])
    sizes: list[int] = field(default_factory=list[int])


async def look_at(url: str, viewers: int, polls: int, looked: Looked) -> None:
    """Look until each viewer has seen so many polls."""
    async with httpx.AsyncClient(base_url=url, timeout=60, trust_env=False) as client:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(viewers):
                tasks.create_task(_view(client, polls, looked))


async def _view(client: httpx.AsyncClient, polls: int, looked: Looked) -> None:
    left = polls
    async with client.stream("GET", "/events") as stream:
        async for line in stream.aiter_lines():
            if not line.startswith("data: "):
                continue
            event = json.loads(line.removeprefix("data: "))
            number = event["number"]
            looked.events.setdefault(number, (time.time(), event))
            page = await client.get("/", headers={"HX-Request": "true", "Accept-Encoding": "gzip"})
            looked.pages[number] = time.time()
            looked.sizes.append(len(page.content) if page.is_success else 0)
            left -= 1
            if not left:
                return
