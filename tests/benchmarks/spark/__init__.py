"""Measures of the Spark source on large messages and many servers: ``python -m tests.benchmarks.spark``.

::

    large       the bytes that nsqd sends for large bodies within maxBytesPerBatch
    cluster     the time to plan a batch over many nsqds
    partitions  the rate of several partitions on one nsqd
    listing     the time to list a spool of many chunks
    idle        what a query costs that waits for messages
    first       the time from a session to the first batch of its query

Each is a function that tests call as well, with smaller numbers.
"""
