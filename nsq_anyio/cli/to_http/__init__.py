"""``nsq-anyio to-http``: send messages to HTTP servers.

HTTP/1.1 runs on the library's own streams, with TLS or without, and HTTP/2 on httpcore. The status of the
answer alone decides about a message.

::

    flags            the flags
    command          the click command
    run              consume                                                  endpoint
    delivery         the endpoints of a message, and its result               status_policy
    sender           one request, and its answer
    connection_pool  kept connections, over TLS if need be                    exchange
    http1  http2     either version of HTTP                                   http1_parser
"""
