import gnsq

NSQD = ["127.0.0.1:4150"]
expected = {"cat.png", "dog.png", "late.png", "broken.png"}

producer = gnsq.Producer(NSQD)
producer.start()
producer.publish("thumbnails", b"cat.png")
producer.multipublish("thumbnails", [b"dog.png", b"broken.png"])
producer.publish("thumbnails", b"late.png", defer=1000)  # milliseconds

consumer = gnsq.Consumer("thumbnails", "worker", NSQD, max_in_flight=8, max_tries=2)


def answered(name):
    expected.discard(name)
    if not expected:
        consumer.close()


@consumer.on_message.connect
def handle(consumer, message):
    name = message.body.decode()
    if name == "broken.png":
        raise gnsq.errors.NSQRequeueMessage
    print("made", name, flush=True)
    message.finish()
    answered(name)


@consumer.on_giving_up.connect
def give_up(consumer, message):
    name = message.body.decode()
    print("gave up", name, flush=True)
    answered(name)


consumer.start()
producer.close()
producer.join()
