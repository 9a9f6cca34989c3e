"""Flags that several commands share: how they are added, and how their texts become values.

::

    kinds        what the text of a flag can be: numbers, durations, booleans
    source       where messages come from
    connection   how to connect, consume and publish
    options      --consumer-opt and --producer-opt
    cluster      which nsqds and nsqlookupds to ask over HTTP
    http         headers and TLS of requests over HTTP
"""
