"""Backups of a queue manager while it works, and folders that are made from them.

A backup consists of epochs; an epoch is the image of a database, and the changes since:

    PLACE/<began at>/image/<first page>-<digest>       1,024 pages
    PLACE/<began at>/changes/<first>-<last>-<until>    what commits have written, number by number
    PLACE/<began at>/epoch.json                        written last: the image is whole
    PLACE/files/<at>.json                              users, certificates, keys, settings

The image is read from the database file beside the queue manager, which writes the log back into
that file meanwhile; so it is of no single moment. All that was committed since its beginning is in
the changes besides, and their pages replace those of the image. Thus no read holds the log, however
long the copy takes (``mayfly.store.changes``). Moments are in ms since 1970. An epoch without its
``epoch.json`` is not whole, and never restored.
"""
