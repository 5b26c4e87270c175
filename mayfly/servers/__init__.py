"""Servers: each speaks one protocol for the queue managers it is given."""
