"""An nsqd's data path: its files, and the threads that read and write them.

::

    queue_files      the format of one queue: file names, metadata, and a message as bytes
    recovery         the places where reading and writing continue, even if the files disagree
    disk_queue       the queue: append, read, sync, remove
    topic_list       nsqd.dat: the topics and channels, and which are paused
    deferred_file    the due times of deferred messages; real nsqds ignore it

    jobs             the file operations of several queues, which a thread runs together
    backend          one queue, as topics and channels see it in the event loop
    disk             the lock of the directory, and the batches of jobs for the thread

A message that was read stays in its file until it is finished, or is queued in memory again, as it would be
in nsqd. The metadata name the oldest message that must stay as the place to read, so that kill -9 loses none
of them. A topic's files keep a message until its channels have synced their copies. When nsqd ends, channels
are closed before their topic, which keeps everything if one of them has failed. A message that a waiting
client can take at once is written, but not read back.
"""
