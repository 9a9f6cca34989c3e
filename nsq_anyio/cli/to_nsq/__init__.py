"""``nsq-anyio to-nsq``: republish messages to other nsqds.

::

    flags         the flags
    command       the click command
    run           consume, and republish each message
    json_filter   filter JSON messages and their fields
"""
