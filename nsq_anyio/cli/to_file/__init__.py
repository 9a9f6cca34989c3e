"""``nsq-anyio to-file``: write messages to files.

::

    command         the flags, and checks of their combinations
    places          whether files can be written and moved, before anything is read
    archives        start and stop the topics' archivers; all end together
    archiver        one topic: write, sync, and only then FIN
    archive         the files of a topic, one after the other     names
    open_file       one file                                      encodings  directories
    finished_files  move a file to its directory or storage
    leftovers       what a killed process has left for a storage
"""
