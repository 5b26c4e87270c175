"""How the outcome of a life is stored: by its code, the word of `lifetime.life.State`.

Ledger rows, totals, balances and the columns of the lake hold codes. A code keeps its meaning for
ever. A code that this version does not know comes from a later version: it is kept and shown as it
is. Counts are stored as a JSON object from code to count; a code that is missing counted nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from mayfly.lifetime.life import OUTCOMES

#: The codes that this version knows, in the order in which reports list them.
OUTCOME_CODES: tuple[str, ...] = tuple(outcome.value for outcome in OUTCOMES)
#: The name under which columns count all lives whose outcome this version does not know.
OTHER_OUTCOMES = "other"
#: json.dumps would only look for it, and each durable put packs counts.
_ENCODER = json.JSONEncoder()


def pack_counts(counts: Mapping[str, int]) -> str:
    """Return how often lives ended, by code, as it is stored."""
    return _ENCODER.encode(counts)


def unpack_counts(stored: str) -> dict[str, int]:
    """Return how often lives ended, by code, from what any version has stored.

    Raises ValueError for other text.
    """
    counts = json.loads(stored)
    if not isinstance(counts, dict) or {type(count) for count in counts.values()} - {int}:
        raise ValueError(f"{stored!r} does not say how often lives ended")
    return {code: count for code, count in counts.items() if count}
