"""``nsq-anyio exporter``: the metrics of a cluster, for Prometheus."""
