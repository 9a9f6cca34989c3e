"""``nsq-anyio nsqd``, ``nsqlookupd`` and ``up``: embedded servers, alone and as a cluster.

::

    command       nsqd and nsqlookupd, with the flags of the real ones
    flags         kinds of flags that only these have
    config_file   their --config, read as the real ones read it
    up            a cluster on free ports
"""
