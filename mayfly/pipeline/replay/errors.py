"""Errors of a replay's input."""

from __future__ import annotations


class ReplayError(ValueError):
    """A trace or a setting is invalid; the text names it and its value."""


class NoLives(ReplayError):
    """A lake contains no lives that can be replayed."""
