"""The declaration of flags, and the flags that several commands share.

::

    fields       flags as fields of a class, and the click options made of them
    kinds        types of flag values: numbers, durations, booleans, delimiters
    source       where messages come from
    connection   how to connect, consume and publish
    options      --consumer-opt and --producer-opt
    cluster      which nsqds and nsqlookupds to ask over HTTP
    http         headers and TLS of requests over HTTP
"""
