"""Errors of a rule table, with their place."""

from __future__ import annotations


class RuleTableError(ValueError):
    """A rule table cannot be used; ``line`` and ``column`` count from 1."""

    def __init__(self, problem: str, line: int, column: int) -> None:
        """Say what is wrong where; the problem names keyword and value."""
        super().__init__(f"line {line}, column {column}: {problem}")
        self.line = line
        self.column = column
