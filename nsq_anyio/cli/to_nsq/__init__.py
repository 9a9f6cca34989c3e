"""``nsq-anyio to-nsq``: republish messages to other nsqds.

::

    command       the flags
    run           consume, and republish each message
    json_filter   filter JSON messages and their fields
"""
