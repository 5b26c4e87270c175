"""Event messages: their content, how they are put, and those for the performance of queues.

One more event is one row in ``catalog``, and a call of ``messages.emit`` where it happens. An event
is a message of its own: it never makes the verb fail that has caused it, and it is lost when its
queue is missing or refuses it. Documentation: docs/EVENTS.md.
"""
