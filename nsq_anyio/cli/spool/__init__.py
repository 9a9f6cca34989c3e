"""``nsq-anyio spool``: list and clear the spools of Spark's streaming queries.

::

    command   the flags, which spools are meant, and what is done to them
    show      tables, lines and JSON
"""
