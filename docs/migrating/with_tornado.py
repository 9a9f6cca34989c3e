import anyio
import tornado.web

import nsq_anyio as nsq

NSQD = "127.0.0.1:4150"


class Upload(tornado.web.RequestHandler):
    def initialize(self, producer):
        self.producer = producer

    async def post(self):
        await self.producer.publish("thumbnails", self.request.body)
        self.set_status(202)


async def handle(message):
    print("made", message.payload.decode(), flush=True)


async def main():
    async with nsq.produce(NSQD) as producer:
        application = tornado.web.Application([("/thumbnails", Upload, {"producer": producer})])
        server = application.listen(8888, "127.0.0.1")
        await nsq.serve(handle, "thumbnails", "worker", nsqd=NSQD, concurrency=8)
        server.stop()
        await server.close_all_connections()


anyio.run(main)  # on asyncio, which is Tornado's event loop too
