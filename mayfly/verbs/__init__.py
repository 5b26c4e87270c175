"""Verbs of a queue manager as request types, each with its fields and the type of its answer.

A connection makes a request, in this process or over a network. The queue manager has one function
for each request type, which carries the request out.
"""
