"""Reads, retries and drops dead letters, for the command and for the dashboard.

::

    letters   reads a dead letter, and selects letters
    walk      takes every letter of a topic once, and puts back those that were not finished
    work      retries or drops the selected letters
    look      reads the selected letters, and leaves them where they are
"""
