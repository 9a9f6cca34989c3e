"""``nsq-anyio to-file``: write messages to files.

A message is finished only after the ``fsync`` of the file that contains it.

::

    command         the flags, and checks of their combinations
    directories     checks, at the start, that files can be written and moved
    topics          find the topics; start and end them together
    topic           one topic: write, sync, and only then FIN
    rotation        the files of a topic, one after another      file_names
    open_file       one file                                     encodings
    finished_files  move a file to its directory or storage
    leftovers       files that a killed process has not moved to a storage
"""
