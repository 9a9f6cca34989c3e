"""``nsq-anyio to-file``: write messages to files.

A message is finished only after the ``fsync`` of the file that has it.

::

    command         the flags, and checks of their combinations
    directories     checks, at the start, that files can be written and moved
    topics          find the topics; start and end them together
    topic           one topic: write, sync, and only then FIN
    rotation        the files of a topic, one after another      file_names
    open_file       one file                                     encodings
    finished_files  move a file to its directory or storage
    leftovers       what a killed process has left for a storage
"""
