"""An nsqd's data path: its files, and the threads that read and write them.

::

    queue_files      the format of one queue: file names, metadata, and a message as bytes
    recovery         the places at which reading and writing go on, even if the files do not agree
    disk_queue       the queue: append, read, sync, remove
    topic_list       nsqd.dat: the topics and channels, and which are paused
    deferred_file    the due times of deferred messages; real nsqds ignore it

    jobs             the jobs of a thread with the files of several queues
    backend          one queue, as topics and channels see it in the event loop
    disk             the lock of the directory, and the batches of jobs for the thread

A message that was read stays in its file until it is finished, or is in memory as it would be in nsqd: the
metadata name the oldest such message as the place to read, so that kill -9 loses nothing that was read. A
topic's files keep a message until its channels have synced their copies. At the end, channels are closed
before their topic, which keeps everything if one of them has failed. A message that a waiting client can take
at once is written, but not read.
"""
