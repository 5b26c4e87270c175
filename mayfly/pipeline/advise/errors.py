"""Errors of the advisor: wrong settings, files and recordings."""

from __future__ import annotations


class AdviseError(ValueError):
    """A setting, configuration file or recording is invalid; the text names it and its value."""
