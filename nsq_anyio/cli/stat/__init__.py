"""``nsq-anyio stat``: depths and rates of topics and channels.

::

    flags     the flags
    command   the click command
    run       poll the cluster
    rows      compute figures from polls
    views     show the figures
"""
