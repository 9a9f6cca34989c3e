"""``nsq-anyio nsqd``, ``nsqlookupd`` and ``up``: embedded servers, alone and as a cluster.

::

    command       nsqd and nsqlookupd, with the flags of the real programs
    flags         types of flag values that only these commands have
    config_file   --config of both, read as the real programs read it
    up            a cluster
    ports         the ports of the cluster
"""
