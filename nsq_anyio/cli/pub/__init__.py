"""``nsq-anyio pub``: publish lines, or other delimited messages.

::

    command   the flags
    reader    read inputs and split them into messages
    run       publish them at a limited rate, and show the progress
"""
