"""The server of the dashboard."""

from __future__ import annotations

import gc
import ipaddress
import logging
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import replace

from ...address import Address, ListenAddress
from ...admin import AdminOptions, app
from ...serving.asgi_server import serve_asgi
from ...serving.listener import local_hosts, local_port, open_listener
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


async def start(
    address: ListenAddress,
    servers: AsyncExitStack,
    *,
    nsqlookupd: Sequence[str] = (),
    nsqd: Sequence[str] = (),
    options: AdminOptions,
) -> Address:
    """Serve the dashboard until the stack is closed. Without ``allowed_hosts``, loopback has only its names.

    :param nsqlookupd: as for `app`
    :param nsqd: as for `app`
    :return: the address that it listens on
    :raises InvalidOption: for a value out of range
    :raises ListenFailed: if the address cannot be listened on
    """
    listener = await servers.enter_async_context(await open_listener(*address))
    if not options.allowed_hosts:
        options = replace(options, allowed_hosts=_names_of_loopback(address.host, local_hosts(listener)))
    application = await servers.enter_async_context(app(nsqlookupd, nsqd, options=options))
    tasks = await servers.enter_async_context(background_tasks())
    tasks.start_soon(lambda: serve_asgi(listener, application, max_body_size=_MAX_BODY_SIZE))
    listening = Address(address.host, local_port(listener))
    _log.info("HTTP: listening on %s", listening)
    return listening


def _names_of_loopback(host: str, addresses: Sequence[str]) -> Sequence[str]:
    """Return the names of a listener on loopback addresses alone, or nothing for another.

    A page of another site can give its own name this machine's address (DNS rebinding), and then read all
    that the dashboard shows to this machine's users. The host of ``--http-address`` does not say whether it
    is loopback: it may be any name, or any spelling of an address.

    :param host: the host that was asked for
    :param addresses: the addresses that are listened on
    """
    if not all(ipaddress.ip_address(address).is_loopback for address in addresses):
        return ()
    return ("localhost", "127.0.0.1", "::1", host, *addresses)
