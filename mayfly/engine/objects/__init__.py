"""Definitions of objects and their attributes; made, changed, asked, resolved."""
