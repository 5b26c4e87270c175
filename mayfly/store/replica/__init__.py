"""The replica of a queue manager: its commits in a log in PostgreSQL, from which others follow.

``log`` is the log in the database; ``pages`` packs what its rows hold. ``applying`` makes the
database of a folder that of the log's end, whether the folder is ahead of the log or behind it.
``owner`` appends what each group commit has written, before the commit is acknowledged; ``lease``
keeps others from taking the queue manager meanwhile, ``merging`` keeps the log short, ``files`` has
what is beside the database. See docs/REPLICA.md.
"""
