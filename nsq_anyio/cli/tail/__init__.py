"""``nsq-anyio tail``: print the messages of topics."""
