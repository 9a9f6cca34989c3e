"""``nsq-anyio demo``: publish messages, consume them, and show what came of them.

::

    command   the flags, and the tables at the end
    run       publish, consume, count
    spark     publish, archive with Spark, look at the files
"""
