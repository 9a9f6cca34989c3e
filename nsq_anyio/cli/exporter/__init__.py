"""``nsq-anyio exporter``: the metrics of a cluster, for Prometheus.

::

    flags      the flags
    command    the click command
    run        poll the cluster, and serve its metrics over HTTP
"""
