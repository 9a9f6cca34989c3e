"""``nsq-anyio run``: run a function as a service.

With one process, the command handles the messages itself. With several, or with ``--reload``, it is a
supervisor: each process is a separate Python interpreter that runs the same command line. The processes get
the arguments of the command line rather than objects, because options hold functions and TLS contexts, which
cannot be pickled.

::

    flags           the flags
    command         the click command
    handler_loader  imports the handler and the lifespan
    run             handles messages in this process, or supervises others
    supervisor      keeps processes running; health and metrics of all of them; --reload
    process         one process: started, drained, killed if it does not end
    link            the messages between the supervisor and a process
    child           the entry point of a process
"""
