"""Storages for files that are put whole: a file system, an object store, or HDFS.

`to-file` puts archives there without Spark, so the package stands beside `spark`.

::

    interface   the interface of a storage, and its errors
    place       a file or directory, by path or URL, and the storage that has it
    posix       local and mounted file systems
    remote      the base of networked storages; requests that are sent again
    objects     S3, Google Cloud Storage and Azure, by conditional puts
                with object_stores, the differences between them
    webhdfs     HDFS, by renames that replace nothing
                with webhdfs_client, its requests and addresses
"""
