"""Sentences as the pages and the source should have them: each begins with a subject."""

from __future__ import annotations

import re

#: A sentence, or a clause behind a colon or semicolon, begins behind these.
BORDER = re.compile(r"(?<=[.!?])(?:\*\*|\))?\s+(?=[\x22A-Z`*\[(])|[:;]\s+")
#: A subject that has not been named.
_HEADLESS = re.compile(
    r"(?:and |but |or |nor )?(?:of |to |for |by |with |from |on )?"
    r"(?:who|whom|whose|what|whoever|whatever|that which|he who)\b(?!.*\?$)",
    re.IGNORECASE,
)


def is_headless(sentence: str) -> bool:
    """Return True if a sentence begins with a subject that has not been named."""
    return _HEADLESS.match(sentence) is not None
