"""``nsq-anyio nsqd``, ``nsqlookupd`` and ``up``: embedded servers, alone and as a cluster."""
