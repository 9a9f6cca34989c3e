"""``nsq-anyio topic``, ``channel`` and ``node``: what nsqadmin does."""
