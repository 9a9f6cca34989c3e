"""NSQ client on structured concurrency: consume and publish natively on Trio and asyncio.

::

    import nsq_anyio as nsq

    async with nsq.consume("clicks", "archive", nsqlookupd="http://127.0.0.1:4161") as consumer:
        async for message in consumer:
            async with message:
                print(message.body)

    async with nsq.produce(nsqd="127.0.0.1:4150") as producer:
        await producer.publish("clicks", b"body")
"""
from .consumer import consume
