"""Creates the channels of a new topic that nsqlookupds know.

Without this, channels whose consumers have not yet connected to this nsqd would miss the first messages.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import anyio

from ..errors import NSQError
from ..names import is_ephemeral, is_valid_name
from .topic import Topic

_logger = logging.getLogger(__name__)

_TIMEOUT = 5.0


async def start_with_known_channels(topic: Topic, nsqlookupds: Sequence[str]) -> None:
    """Ask all nsqlookupds (their HTTP addresses, ``host:port``), create the channels, and start ``topic``.

    An nsqlookupd that does not answer is left out. Ephemeral channels are not created, as they have no client
    here.
    """
    from ..http import Nsqlookupd  # noqa: PLC0415 - httpx takes longer to import than all the rest

    channels: set[str] = set()

    async def ask(address: str) -> None:
        try:
            async with Nsqlookupd(address, timeout=_TIMEOUT) as nsqlookupd:
                channels.update(await nsqlookupd.channels(topic.name))
        except NSQError as error:
            _logger.warning("the channels of topic %s are not known: %s", topic.name, error)

    async with anyio.create_task_group() as tasks:
        for address in nsqlookupds:
            tasks.start_soon(ask, address)
    if topic.is_deleted:  # meanwhile
        return
    for name in sorted(channels):
        if is_valid_name(name) and not is_ephemeral(name):
            topic.get_channel(name)
    topic.start()
