"""A delay that is given by its end."""

from __future__ import annotations


# Not beside the window: a compiled module has no class of integers.
class Until(int):
    """A delay until a moment, whose value is in epoch ms; one that is past at the put is 1 ms."""
