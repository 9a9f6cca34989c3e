"""Flask under gunicorn, with and without ``--preload``: a producer for each worker process.

Run it, where nsq-anyio is installed, with::

    pip install flask gunicorn
    NSQD=127.0.0.1:4150 gunicorn --preload --workers 2 --threads 4 flask_shop:app
"""

import os

from flask import Flask

import nsq_anyio as nsq

app = Flask(__name__)
# It opens when a worker first publishes, so after the fork. All threads of the worker share it, and it is
# closed when the worker exits.
producer = nsq.sync.produce(nsqd=os.environ["NSQD"])


@app.post("/orders/<int:number>")
def order(number: int) -> tuple[str, int]:
    """Accept an order: nsqd has it when the answer is sent."""
    producer.publish("orders", b"%d" % number)
    return "", 202
