"""``nsq-anyio spool``: list and clear the spools of Spark's streaming queries."""
