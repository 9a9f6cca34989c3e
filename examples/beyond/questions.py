"""Questions and replies: a topic for each, an id in the headers, and a limit of time."""

import math
import os
from uuid import uuid4

import anyio
from anyio.streams.memory import MemoryObjectSendStream

import nsq_anyio as nsq

QUESTIONS, REPLIES = "squares", "squares.replies#ephemeral"


class Questions:
    """Asks questions, and matches the replies; it needs a task that runs `take_replies`."""

    def __init__(self, producer: nsq.Producer) -> None:
        self.producer = producer
        self.waiting: dict[str, MemoryObjectSendStream[bytes]] = {}

    async def ask(self, question: bytes, seconds: float) -> bytes:
        """Return the first reply, or raise TimeoutError."""
        key = uuid4().hex
        send, receive = anyio.create_memory_object_stream[bytes](math.inf)  # a reply may come twice
        with send, receive, anyio.fail_after(seconds):
            self.waiting[key] = send
            try:
                await self.producer.publish(QUESTIONS, question, headers={"id": key})
                return await receive.receive()
            finally:
                del self.waiting[key]

    async def take_replies(self, message: nsq.Message) -> None:
        """Pass a reply on, unless nobody here waits for it."""
        if stream := self.waiting.get(message.headers.get("id", "")):
            stream.send_nowait(message.payload)


async def answer(nsqd: str) -> None:
    """Answer questions; usually that is another program."""
    async with nsq.produce(nsqd) as producer:

        async def square(message: nsq.Message) -> None:
            reply = str(int(message.payload) ** 2)
            await producer.publish(REPLIES, reply, headers={"id": message.headers["id"]})

        async with nsq.consume(QUESTIONS, "answer", nsqd=nsqd) as consumer:
            await consumer.run(square, concurrency=10)


async def main() -> None:
    """Ask once."""
    nsqd = os.environ["NSQD"]
    channel = f"{uuid4().hex}#ephemeral"  # one of its own; nsqd deletes it when this program leaves
    async with (
        nsq.produce(nsqd) as producer,
        nsq.consume(REPLIES, channel, nsqd=nsqd, max_in_flight=100) as replies,
        anyio.create_task_group() as tasks,
    ):
        questions = Questions(producer)
        tasks.start_soon(answer, nsqd)
        tasks.start_soon(replies.run, questions.take_replies)
        await replies.ready()  # the channel gets only what is published from now on
        print((await questions.ask(b"12", seconds=5)).decode())
        tasks.cancel_scope.cancel()


if __name__ == "__main__":
    anyio.run(main)
