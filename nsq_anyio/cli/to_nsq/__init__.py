"""``nsq-anyio to-nsq``: messages to other nsqds.

::

    command       the flags
    run           consume, and publish each message again
    json_filter   which JSON messages pass, and which of their fields
"""
