"""``nsq-anyio tail``: print the messages of topics.

::

    command   the flags
    run       check that no topic loses waiting messages; consume, print, and finish the printed messages
"""
