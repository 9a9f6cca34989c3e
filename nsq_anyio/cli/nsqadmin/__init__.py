"""``nsq-anyio admin``: nsqadmin's HTTP API.

::

    command   the flags
    run       serve the application
"""
