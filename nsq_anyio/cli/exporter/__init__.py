"""``nsq-anyio exporter``: the metrics of a cluster, for Prometheus.

::

    command    the flags
    run        poll the cluster, and serve its metrics over HTTP
"""
