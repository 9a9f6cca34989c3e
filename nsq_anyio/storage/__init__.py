"""Storages for files that are written as a whole: a file system, an object store, or HDFS.

`to-file` stores archives without Spark, so this package is not a part of `spark`.

::

    interface   the interface of a storage, and its errors
    place       a file or directory, by path or URL, and the storage that holds it
    posix       local and mounted file systems
    remote      the base of networked storages; retries of requests
    objects     S3, Google Cloud Storage and Azure, by conditional puts
                with object_stores, the differences between them
    webhdfs     HDFS, by renames that replace nothing
                with webhdfs_client, its requests and addresses
"""
