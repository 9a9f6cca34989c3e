"""The declaration of flags, and the flags that several commands have.

::

    fields       the declaration of flags as fields of a class
    kinds        types of flag values: numbers, durations, booleans, delimiters
    addresses    flags that name servers
    names        completion of topics, channels and nsqds
    source       the servers to consume from, and to publish to
    connection   the options of connections, consumers and producers
    options      --consumer-opt and --producer-opt
    cluster      the nsqds and nsqlookupds to ask over HTTP
    http         headers and TLS of requests over HTTP
"""
