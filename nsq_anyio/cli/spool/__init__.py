"""``nsq-anyio spool``: list and clear the spools of Spark's streaming queries.

::

    command   the flags; choose spools, and put them back or delete them
    show      tables, lines and JSON
"""
