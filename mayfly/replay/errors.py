"""What can be wrong with what a replay is given."""

from __future__ import annotations


class ReplayError(ValueError):
    """A trace or a setting makes no sense; the text names it and its value."""


class NoLives(ReplayError):
    """A lake holds nothing that can be replayed."""
