"""``nsq-anyio pub``: publish lines, or whatever stands between delimiters.

::

    command   the flags
    reader    from inputs to messages
    run       publish them, at most so many a second, and show how far it is
"""
