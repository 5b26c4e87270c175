"""Errors of the advisor's input."""

from __future__ import annotations


class AdviseError(ValueError):
    """A setting, a configuration file or a recording makes no sense; the text names it and its
    value."""
