"""Errors of a replay: invalid traces and settings."""

from __future__ import annotations


class ReplayError(ValueError):
    """A trace or a setting is invalid; the text names it and its value."""


class NoLives(ReplayError):
    """A lake contains no ended messages that can be replayed."""
