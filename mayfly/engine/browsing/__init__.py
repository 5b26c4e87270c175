"""Browsing: a cursor, a lock on what it shows, and marks on what has been seen (B1-B7)."""
