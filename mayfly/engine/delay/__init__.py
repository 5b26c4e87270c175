"""Delivery delay: the staging queue, its release, and its schedule."""
