"""NSQ as a source and a sink of Spark: ``format("nsq")``.

::

    from nsq_anyio.spark import NsqDataSource, session

    spark = session()
    rows = (
        spark.readStream.format("nsq")
        .options(topic="clicks", channel="archive", nsqlookupd="http://127.0.0.1:4161")
        .option("spoolDir", "/mnt/shared/nsq-spool")
        .load()
    )

It needs Spark and Arrow: ``pip install 'nsq-anyio[spark]'``.
"""

from __future__ import annotations

import importlib

try:
    for _needed in ("pyspark", "pyarrow"):
        importlib.import_module(_needed)
except ImportError as _missing:
    raise ImportError(
        f"nsq_anyio.spark needs Spark and Arrow ({_missing}): pip install 'nsq-anyio[spark]'",
        name=_missing.name,
    ) from _missing

from .session import JavaMissing, find_java, session
from .source import NsqDataSource

__all__ = ["JavaMissing", "NsqDataSource", "find_java", "session"]
