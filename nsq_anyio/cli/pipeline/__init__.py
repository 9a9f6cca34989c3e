"""``nsq-anyio pipeline``: archive, metrics and replay on Spark.

::

    command   the flags
    run       Spark, signals, progress and summary, also for demo and spool
"""
