import functools

import nsq
import tornado.gen
import tornado.ioloop

NSQD = ["127.0.0.1:4150"]
expected = {"cat.png", "dog.png", "late.png", "broken.png"}


def answered(name):
    expected.discard(name)
    if not expected:
        tornado.ioloop.IOLoop.current().stop()


class Thumbnails(nsq.Reader):
    def giving_up(self, message):
        name = message.body.decode()
        print("gave up", name, flush=True)
        answered(name)


def handle(message):
    name = message.body.decode()
    if name == "broken.png":
        return False  # requeue it
    print("made", name, flush=True)
    tornado.ioloop.IOLoop.current().call_later(0, answered, name)
    return True  # finish it


def publish(writer):
    if not writer.conns:  # the writer does not wait for its connections
        tornado.ioloop.IOLoop.current().call_later(0.1, publish, writer)
        return
    check = functools.partial(print_failure, "publish")
    writer.pub("thumbnails", b"cat.png", callback=check)
    writer.mpub("thumbnails", [b"dog.png", b"broken.png"], callback=check)
    writer.dpub("thumbnails", 1000, b"late.png", callback=check)  # milliseconds


def print_failure(what, conn, data):
    if isinstance(data, nsq.Error):
        print(what, "failed", data)


reader = Thumbnails(
    topic="thumbnails",
    channel="worker",
    message_handler=handle,
    nsqd_tcp_addresses=NSQD,
    max_in_flight=8,
    max_tries=2,
    requeue_delay=0,
    output_buffer_timeout=25,
)
publish(nsq.Writer(NSQD))
nsq.run()
