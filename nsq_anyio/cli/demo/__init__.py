"""``nsq-anyio demo``: publish messages, consume them, and show the throughput.

::

    command   the flags, and the tables at the end
    run       publish, consume and count
    spark     publish, archive with Spark, and read the files
"""
