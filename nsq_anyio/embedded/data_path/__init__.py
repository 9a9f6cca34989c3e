"""What an nsqd keeps on disk: its own files, and the threads that read and write them.

::

    records          a message as bytes
    queue_files      the files of one queue: their names, and the metadata of the queue
    recovery         where reading and writing go on, and what to do if the files do not agree
    reader, writer   the two ends of a queue
    disk_queue       the queue: append, read, sync, remove
    topic_list       nsqd.dat: the topics and channels, and which are paused
    deferred_file    when deferred messages are due; real nsqds ignore it
    data_path        the directory, and its lock

    jobs             what a thread does with the files of several queues in one go
    disk             gives the jobs to the thread, one batch after the other
    items            messages in memory, and who has them
    backend          one queue, as topics and channels see it in the event loop
"""
