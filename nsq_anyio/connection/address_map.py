"""Maps the advertised address of an nsqd to a reachable one, as ``map_address`` says."""

from __future__ import annotations

from ..address import Address
from ..errors import DialFailed, InvalidAddress
from ..options import AddressMap


def mapped(address: Address, map_address: AddressMap | None) -> Address:
    """Return the address to connect to.

    :raises DialFailed: if the user's function raises, or returns something that is not an address
    """
    if map_address is None:
        return address
    if not callable(map_address):
        found = {Address.parse(name): Address.parse(to) for name, to in map_address.items()}
        return found.get(address, address)
    try:
        answer = map_address(address.host, address.port)
    except Exception as error:  # the user's code may raise anything
        raise DialFailed(str(address), f"map_address raised {error!r}") from error
    try:
        return Address.parse(answer) if isinstance(answer, str) else Address(*answer)
    except (InvalidAddress, TypeError) as error:
        raise DialFailed(
            str(address), f"map_address returned {answer!r}: use (host, port) or 'host:port'"
        ) from error
