"""Mayfly as the broker of other frameworks (docs/TASKS.md); each module needs its framework.

``kombu`` is the transport, ``celery`` the application of Celery on it, ``taskiq`` and ``django``
are brokers of their own. Nothing here is imported unless a program imports it by name.
"""
