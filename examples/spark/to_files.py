"""Keep a topic as Parquet: ``to_files.py NSQLOOKUPD SPOOL FILES``.

SPOOL may be a URL of S3 (``s3://``) or HDFS, and FILES any URL that Spark writes to, such as ``s3a://``.
"""

import sys

from nsq_anyio.spark import session

nsqlookupd, spool, files = sys.argv[1:]
query = (
    session()
    .readStream.format("nsq")
    .options(nsqlookupd=nsqlookupd, topic="clicks", channel="files", spoolDir=spool)
    .load()
    .writeStream.format("parquet")
    .option("path", f"{files}/clicks")
    .option("checkpointLocation", f"{files}/checkpoint")
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
