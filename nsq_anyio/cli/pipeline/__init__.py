"""``nsq-anyio pipeline``: archive, metrics and replay on Spark."""
