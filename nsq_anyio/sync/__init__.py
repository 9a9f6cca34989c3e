"""Publishing from plain functions: scripts, web frameworks, worker threads.

::

    with nsq.sync.produce(nsqd="127.0.0.1:4150") as producer:
        producer.publish("clicks", b"body")

An event loop in a thread of its own does the work while the block is open.
"""

from .producer import Producer, produce

__all__ = ["Producer", "produce"]
