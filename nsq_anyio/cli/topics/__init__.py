"""``nsq-anyio topic``, ``channel`` and ``node``: nsqadmin's actions on the command line.

::

    command   the three groups, their flags, and the results of actions
    actions   the actions, each with a plan of its effect
"""
