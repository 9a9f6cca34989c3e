"""``nsq-anyio admin``: the dashboard, and nsqadmin's HTTP API.

::

    command   the flags
    run       serve the application
"""
