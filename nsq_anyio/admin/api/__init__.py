"""nsqadmin's HTTP API, with the statuses, codes and JSON of nsqadmin 1.3.0.

::

    endpoints       the handlers, behind the router of the embedded servers
    cluster_info    questions and commands to the servers, and their results
    nsqds           the nsqds of a cluster, and their JSON
    statistics      the JSON of statistics
    configuration   ``/config``
"""
