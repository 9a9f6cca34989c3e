"""``nsq-anyio to-file``: write messages to files.

A message is finished only after the ``fsync`` of the file that contains it.

::

    command         the flags, and checks of their combinations
    directories     at the start: checks, and files that a killed process has left
    topics          find the topics; start and end them together
    topic           one topic: write, sync, and only then FIN
    rotation        the files of a topic, one after another      file_names
    open_file       one file                                     encodings
    finished_files  move a file to its directory or storage
"""
