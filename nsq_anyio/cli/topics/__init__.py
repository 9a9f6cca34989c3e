"""``nsq-anyio topic``, ``channel`` and ``node``: nsqadmin's actions on the command line.

::

    command   the three groups, and their flags
    actions   the actions, each with a plan of its effect
    perform   ask the cluster, perform an action, and report its result
"""
