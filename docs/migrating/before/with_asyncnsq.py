import asyncio

import asyncnsq

MAX_ATTEMPTS = 2


async def main():
    writer = await asyncnsq.create_writer(host="127.0.0.1", port=4150)
    await writer.pub("thumbnails", b"cat.png")
    await writer.mpub("thumbnails", b"dog.png", b"broken.png")
    await writer.dpub("thumbnails", 1000, b"late.png")  # milliseconds

    reader = await asyncnsq.create_reader(nsqd_tcp_addresses=["127.0.0.1:4150"], max_in_flight=8)
    await reader.subscribe("thumbnails", "worker")
    answered = 0
    async for message in reader.messages():
        name = message.body.decode()
        if name != "broken.png":
            print("made", name, flush=True)
        elif message.attempts <= MAX_ATTEMPTS:
            await message.req(0)
            continue
        else:
            print("gave up", name, flush=True)
        await message.fin()
        answered += 1
        if answered == 4:
            break
    await asyncio.sleep(0.1)  # for the last FIN
    reader.close()
    writer.close()


asyncio.run(main())
