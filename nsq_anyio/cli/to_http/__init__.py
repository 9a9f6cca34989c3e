"""``nsq-anyio to-http``: send messages to HTTP servers.

::

    command          the flags
    run              consume                                                  endpoint
    delivery         which endpoints get a message, and what becomes of it    status_policy
    sender           one request, and its answer
    connection_pool  kept connections, over TLS if need be                    exchange
    http1  http2     either version of HTTP                                   http1_parser
"""
