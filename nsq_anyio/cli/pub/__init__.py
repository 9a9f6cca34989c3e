"""``nsq-anyio pub``: publish lines, or other delimited messages.

::

    flags     the flags
    command   the click command
    reader    read inputs and split them into messages
    run       publish them at a limited rate, and show the progress
"""
