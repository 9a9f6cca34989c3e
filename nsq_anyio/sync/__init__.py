"""Publishing and consuming from plain functions: scripts, web frameworks, worker threads.

::

    with nsq.sync.produce(nsqd="127.0.0.1:4150") as producer:
        producer.publish("clicks", b"body")

    with nsq.sync.consume("clicks", "archive", nsqlookupd="http://127.0.0.1:4161") as consumer:
        for message in consumer:
            with message:
                print(message.payload)

Each consumer and producer runs an event loop in a thread of its own, from its first use to the end of its
block or `close()`.
"""

from .consumer import Consumer, consume
from .message import Message
from .producer import Producer, produce

__all__ = ["Consumer", "Message", "Producer", "consume", "produce"]
