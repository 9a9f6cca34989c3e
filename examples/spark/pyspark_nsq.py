"""Lets every session of a Spark server read and write NSQ, if this file is on the server's PYTHONPATH.

Spark imports each module whose name begins with ``pyspark_``, and registers its ``DefaultSource``.
"""

from nsq_anyio.spark import NsqDataSource as DefaultSource

__all__ = ["DefaultSource"]
