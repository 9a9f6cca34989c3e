"""``nsq-anyio dead-letter``: show the messages that consumers have given up or discarded, and retry them.

::

    command   list, show, retry and drop
    flags     where the letters are, and which of them to select
    run       checks that the servers are there
    show      tables, text and JSON

What the commands do with the letters is in `nsq_anyio.dead_letters`.
"""
