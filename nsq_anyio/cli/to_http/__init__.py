"""``nsq-anyio to-http``: messages to HTTP servers."""
