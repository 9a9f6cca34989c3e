"""``nsq-anyio dead-letter``: show the messages that consumers have given up or discarded, and retry them.

::

    command   list, show, retry and drop
    flags     where the letters are, and which of them to select
    letters   reads a dead letter, and selects letters
    walk      takes every letter of a topic once, and puts back those that were not finished
    run       what the commands do with the letters
    show      tables, text and JSON
"""
