"""``nsq-anyio dead-letter``: show the messages that consumers have given up or discarded, and retry them.

::

    command   list, show, retry and drop
    flags     the source of the letters, and their selection
    show      tables, text and JSON

`nsq_anyio.dead_letters` retries, drops and lists the letters.
"""
