"""The declaration of flags, and the flags that several commands share.

::

    fields       flags as fields of a class, and the click options made of them
    kinds        types of flag values: numbers, durations, booleans, delimiters
    addresses    flags that name servers
    names        completion of topics, channels and nsqds
    source       the servers to consume from, and to publish to
    connection   the options of connections, consumers and producers
    options      --consumer-opt and --producer-opt
    cluster      the nsqds and nsqlookupds to ask over HTTP
    http         headers and TLS of requests over HTTP
"""
