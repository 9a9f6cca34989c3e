import asyncio

import ansq

NSQD = ["127.0.0.1:4150"]
MAX_ATTEMPTS = 2


async def main():
    writer = await ansq.create_writer(nsqd_tcp_addresses=NSQD)
    await writer.pub("thumbnails", "cat.png")
    await writer.mpub("thumbnails", "dog.png", "broken.png")
    await writer.dpub("thumbnails", "late.png", 1000)  # milliseconds
    await writer.close()

    reader = await ansq.create_reader("thumbnails", "worker", nsqd_tcp_addresses=NSQD)
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
    await reader.close()


asyncio.run(main())
