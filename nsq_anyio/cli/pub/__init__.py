"""``nsq-anyio pub``: publish lines, or whatever stands between delimiters."""
