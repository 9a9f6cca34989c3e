"""Wait for a descriptor that this process shares with others, such as a pipe or a terminal."""

import selectors

import anyio


async def wait_readable(descriptor: int) -> None:
    """Wait until a descriptor is readable, and leave it as it is.

    uvloop makes each descriptor that it waits for non-blocking, for all processes that share it: the next one
    to write to the pipe, or to read from the terminal, would fail. So the event loop waits for a selector,
    which waits for the descriptor.

    :raises OSError: if the descriptor cannot be waited for
    """
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        await anyio.wait_readable(selector)
