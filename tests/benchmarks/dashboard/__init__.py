"""The dashboard on a large cluster, whose nsqds are recorded answers.

::

    answers   what nsqds and nsqlookupds answer
    server    a process that answers for a handful of them
    process   the CPU time and memory of the dashboard's process
    viewers   looks at the dashboard as browsers do
    __main__  starts all of it, and reports
"""
