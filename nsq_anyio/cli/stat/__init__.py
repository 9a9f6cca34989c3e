"""``nsq-anyio stat``: depths and rates of topics and channels."""
