"""``--map-address``: maps the addresses of nsqds that nsqlookupds name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click


def _address_map(
    context: click.Context, parameter: click.Parameter, texts: Sequence[str]
) -> dict[str, str] | None:
    """Parse each ``FROM=TO``.

    :raises click.BadParameter: if one does not consist of two addresses
    """
    if not texts:
        return None
    from ...address import Address
    from ...errors import InvalidAddress

    found: dict[str, str] = {}
    for text in texts:
        name, equals, to = text.partition("=")
        try:
            if not equals:
                raise InvalidAddress("use FROM=TO")
            found[str(Address.parse(name))] = str(Address.parse(to))
        except InvalidAddress as error:
            raise click.BadParameter(f"{text!r} is not valid: {error}", context, parameter) from error
    return found


map_address_option: Callable[[Any], Any] = click.option(
    "--map-address",
    multiple=True,
    metavar="FROM=TO",
    callback=_address_map,
    help="Reach the nsqd that nsqlookupds name FROM at TO instead, both as host:port; repeatable.",
)
"""The flag. Its value is a mapping for `ConnectionOptions.map_address`."""
