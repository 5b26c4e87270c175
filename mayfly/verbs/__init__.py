"""Requests of programs to a queue manager, as values: each with its fields and its answer.

A request is made by a connection, in this process or over a network, and carried out by the
function that the queue manager has for its type.
"""
