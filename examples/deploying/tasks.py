"""The handler that the service and the container run."""

import nsq_anyio as nsq


async def handle(message: nsq.Message) -> None:
    """Show a click; what it prints is in the journal, or in the log of the container."""
    print(message.payload.decode(errors="replace"), flush=True)
