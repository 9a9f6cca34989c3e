"""``nsq-anyio to-file``: messages into files.

::

    command      the flags, and what they mean together
    archives     topics come and go, all end together
    archiver     one topic: write, sync, and only then FIN
    archive      the files of a topic, one after the other     names
    open_file    one file                                      encodings  directories
"""
