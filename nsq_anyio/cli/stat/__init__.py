"""``nsq-anyio stat``: depths and rates of topics and channels.

::

    command   the flags
    run       poll the cluster
    rows      compute figures from polls
    views     show the figures
"""
