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
#: Up to schema 7, counts were a JSON list in this order. Old balances in the ledger still are.
_CODES_BY_POSITION = (
    "got",
    "expired",
    "dead_lettered",
    "discarded",
    "transmitted",
    "released",
    "cleared",
    "cancelled",
    "lost_at_restart",
)


#: json.dumps would only look for it, and each durable put packs counts.
_ENCODER = json.JSONEncoder()


def code_at(position: int) -> str:
    """Return the code of a position in the lists of schema 7; raises IndexError."""
    return _CODES_BY_POSITION[position]


def pack_counts(counts: Mapping[str, int]) -> str:
    """Return how often lives ended, by code, as it is stored."""
    return _ENCODER.encode(counts)


def unpack_counts(stored: str) -> dict[str, int]:
    """Return how often lives ended, by code, from what any version has stored.

    Raises ValueError for text that no version writes.
    """
    counts = json.loads(stored)
    if isinstance(counts, list):
        counts = dict(zip(_CODES_BY_POSITION, counts, strict=True))
    if not isinstance(counts, dict) or {type(count) for count in counts.values()} - {int}:
        raise ValueError(f"{stored!r} does not say how often lives ended")
    return {code: count for code, count in counts.items() if count}
