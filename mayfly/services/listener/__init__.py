"""Listener ports and activation specifications; `mayfly.listener` has the public names."""
