"""The server of the dashboard."""

from __future__ import annotations

import gc
import logging
from contextlib import AsyncExitStack

from ...address import Address, ListenAddress
from ...admin import Admin
from ...serving.asgi_server import serve_asgi
from ...serving.listener import local_port, open_listener
from ...tasks import background_tasks

_log = logging.getLogger(__name__)

_MAX_BODY_SIZE = 2 * 1024 * 1024
"""More than any endpoint accepts, so that each refuses larger bodies in its own way."""

_COLLECT_AFTER = 50_000


def quiet_garbage_collector() -> None:
    """Make Python's garbage collector run less often in this process.

    A poll of a large cluster creates many objects that live on, and no cycles. The collector would traverse
    all of them repeatedly, which takes as long as the poll.
    """
    gc.set_threshold(_COLLECT_AFTER, 20, 100)


async def start(address: ListenAddress, application: Admin, servers: AsyncExitStack) -> Address:
    """Serve the application until the stack is closed.

    :return: the address that it listens on
    :raises InvalidOption: for a value out of range
    :raises ListenFailed: if the address cannot be listened on
    """
    listener = await servers.enter_async_context(await open_listener(*address))
    await servers.enter_async_context(application)
    tasks = await servers.enter_async_context(background_tasks())
    tasks.start_soon(lambda: serve_asgi(listener, application, max_body_size=_MAX_BODY_SIZE))
    listening = Address(address.host, local_port(listener))
    _log.info("HTTP: listening on %s", listening)
    return listening
