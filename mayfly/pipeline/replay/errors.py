"""Errors of a replay's input."""

from __future__ import annotations


class ReplayError(ValueError):
    """A trace or a setting makes no sense; the text names it and its value."""


class NoLives(ReplayError):
    """A lake holds nothing that can be replayed."""
