"""``nsq-anyio demo``: publish messages, consume them, and show what came of them."""
