"""An nsqd's HTTP address, guessed from its TCP address."""

from __future__ import annotations

from ..address import Address
from ..errors import InvalidAddress, NSQError
from ..http import Nsqd


async def guess_http_address(tcp_address: str, *, timeout: float) -> str | None:
    """Return the HTTP address of an nsqd whose ports are neighbours, as NSQ's default ports are.

    :param timeout: seconds for its answer
    :return: None if the nsqd is not found there
    """
    try:
        address = Address.parse(tcp_address)
        url = str(Address(address.host, address.port + 1))
        async with Nsqd(url, timeout=timeout) as nsqd:
            info = await nsqd.info()
    except (InvalidAddress, NSQError):  # a unix socket, or nothing listens on the port
        return None
    return url if info.tcp_port == address.port else None  # otherwise, the port belongs to another nsqd
