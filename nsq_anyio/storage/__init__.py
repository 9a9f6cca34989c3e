"""Files that are put whole: on a file system, in an object store, or in HDFS.

::

    interface   what spools and archives need of their storage
    place       a file or directory, and the storage that has it
    url         the URLs of directories
    posix       directories that are mounted
    remote      what the other two have in common
    objects     S3, Google Cloud Storage and Azure, by conditional puts
                with object_stores, what differs between them
    webhdfs     HDFS, by renames that replace nothing
                with webhdfs_client, its requests, and namenodes, the addresses that a URL means
    patience    how often a request is sent again
    failure     errors of a server, without its secrets
"""
