"""The patterns of LIKE: ``_`` is any one character, ``%`` any number of them."""

from __future__ import annotations

import re
from collections.abc import Callable


def compile_pattern(pattern: str, escape: str | None) -> Callable[[str], bool]:
    """Return a function that returns True if a whole text is like the pattern.

    A character behind the escape character stands for itself; raises ValueError when none follows.
    The time is at most the length of the text times the length of the pattern.
    """
    segments = _segments(pattern, escape)
    first, middle, last = segments[0], segments[1:-1], segments[-1]
    # Atomic: the leftmost place of a segment is never reconsidered, so that nothing multiplies.
    between = "".join(f"(?>.*?{segment})" for segment in middle if segment)
    expression = first if len(segments) == 1 else f"{first}{between}.*{last}"
    match = re.compile(expression, re.DOTALL).fullmatch
    return lambda text: match(text) is not None


def _segments(pattern: str, escape: str | None) -> list[str]:
    """Return the parts between the percent signs as regular expressions of fixed length."""
    segments = [""]
    chars = iter(pattern)
    for char in chars:
        if char == escape:
            escaped = next(chars, None)
            if escaped is None:
                raise ValueError(pattern)
            segments[-1] += re.escape(escaped)
        elif char == "%":
            segments.append("")
        else:
            segments[-1] += "." if char == "_" else re.escape(char)
    return segments
