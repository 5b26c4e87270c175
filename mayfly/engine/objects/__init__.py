"""Definitions of queues and other objects: create, alter, inquire, delete, resolve names."""
