"""``nsq-anyio tail``: print the messages of topics.

::

    command       the flags
    drain_check   whether a topic would lose what waits in it
    run           consume, print, and finish what was printed
"""
