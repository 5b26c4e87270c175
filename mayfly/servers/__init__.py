"""Servers: each one serves queue managers over one protocol."""
