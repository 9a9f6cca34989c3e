"""``nsq-anyio stat``: depths and rates of topics and channels.

::

    command   the flags
    run       poll the cluster
    rows      from polls to figures
    views     how figures are shown
"""
