"""A worker beside Flask or Django, in a process of its own, as with Celery.

Run it, where nsq-anyio is installed with its extra ``cli``, with::

    export NSQD=127.0.0.1:4150
    nsq-anyio run billing:bill --topic orders --channel billing --nsqd-tcp-address $NSQD
"""

import os
import time

import nsq_anyio as nsq

producer = nsq.sync.produce(nsqd=os.environ["NSQD"])


def bill(message: nsq.Message) -> None:
    """Bill an order; a plain function is called in a thread, up to ``--concurrency`` of them at a time."""
    time.sleep(float(os.environ.get("SECONDS", "0")))  # a slow bank
    producer.publish("bills", b"bill for " + message.payload)
