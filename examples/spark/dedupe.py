"""Keep each message of a topic once: ``dedupe.py NSQLOOKUPD DIRECTORY``.

The spool, the checkpoint and the Parquet files are in DIRECTORY, which all machines share.
"""

import sys

from nsq_anyio.spark import session

nsqlookupd, directory = sys.argv[1:]
messages = (
    session()
    .readStream.format("nsq")
    .options(nsqlookupd=nsqlookupd, topic="clicks", channel="dedupe", spoolDir=f"{directory}/spool")
    .load()
)
unique = messages.withWatermark("timestamp", "7 days").dropDuplicatesWithinWatermark(["nsqd", "id"])
query = (
    unique.writeStream.format("parquet")
    .option("path", f"{directory}/clicks")
    .option("checkpointLocation", f"{directory}/checkpoint")
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
