"""``nsq-anyio spool``: list and clear the spools of Spark's streaming queries.

A spool holds the rows that a streaming query took from NSQ and may not have committed.
"""
