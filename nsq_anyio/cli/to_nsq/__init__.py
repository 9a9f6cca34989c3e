"""``nsq-anyio to-nsq``: messages to other nsqds."""
