"""``nsq-anyio nsqd``, ``nsqlookupd`` and ``up``: embedded servers, alone and as a cluster.

::

    command   nsqd and nsqlookupd, with the flags of the real programs
    flags     flag values and --config of both
    up        a cluster, and its ports
"""
