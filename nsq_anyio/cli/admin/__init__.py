"""``nsq-anyio topic``, ``channel`` and ``node``: what nsqadmin does.

::

    command   the three groups, and their flags
    actions   what can be done, and what that would touch
    perform   ask the cluster, do it, and tell what came of it
"""
