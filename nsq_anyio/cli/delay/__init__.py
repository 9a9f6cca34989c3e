"""``nsq-anyio delay``: serve a topic of delayed messages, and list, count and cancel those that wait.

::

    command   serve, list, stats and cancel
    flags     the file, and the selection of messages
    show      tables, text and JSON
    run       the service, with its health and metrics
"""
