"""``nsq-anyio run``: runs a function as a service.

With one process, the command handles the messages itself. With several, or with ``--reload``, it is a
supervisor: each process is a Python interpreter of its own that runs the same command line (`child`),
connected to the supervisor by a pair of sockets (`link`).
"""
