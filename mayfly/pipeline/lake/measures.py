"""The measures of a lake, counts and durations of messages, as SQL for both Spark and DuckDB.

Each text is an expression over the columns of the ledger (bulk/schema.py); null is not counted.
"""

from __future__ import annotations

from mayfly.lifetime.life import KIND_BALANCE, KIND_LIFE, State
from mayfly.lifetime.reports import Cause
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.verbs.contracts.outcomes import OTHER_OUTCOMES, OUTCOME_CODES

#: By default, a message that waited longer than a minute for its get is late.
LATE_AFTER_MS = 60_000
OWED_NAMES: tuple[str, ...] = tuple(f"owed_{cause.name.lower()}" for cause in Cause)
COUNT_NAMES = ("lives", *OUTCOME_CODES, "late", *OWED_NAMES)

IS_LIFE = f"kind = {KIND_LIFE}"
IS_BALANCE = f"kind = {KIND_BALANCE}"
#: In ms. ``waited``: delivery time to get; ``left``: get to the end of the life, of those that have
#: one; ``released_late``: delivery time to release from the staging queue.
DURATIONS: dict[str, str] = {
    "waited": f"CASE WHEN outcome = '{State.GOT}' THEN ended_ms - deliver_at_ms END",
    "left": f"CASE WHEN outcome = '{State.GOT}' THEN expire_at_ms - ended_ms END",
    "released_late": f"CASE WHEN outcome = '{State.RELEASED}' THEN ended_ms - deliver_at_ms END",
}
#: Ranks of each duration: the long waits and latenesses, and the short lives left.
RANKS: dict[str, tuple[float, ...]] = {
    "waited": (0.5, 0.95, 0.99),
    "left": (0.5, 0.05, 0.01),
    "released_late": (0.5, 0.95, 0.99),
}
#: COA is owed on the first queue that a message can be got from. COD is owed by a get, but not by
#: one from a queue that the message was moved to, such as a dead-letter queue.
_IS_FIRST = "(origin_id IS NULL OR deliver_at_ms > put_ms)"
_OWING = {
    Cause.EXCEPTION: f"outcome IN ('{State.DEAD_LETTERED}', '{State.DISCARDED}')",
    Cause.EXPIRATION: f"outcome = '{State.EXPIRED}'",
    Cause.COA: (f"{_IS_FIRST} AND queue <> '{STAGING_QUEUE}' AND outcome <> '{State.TRANSMITTED}'"),
    Cause.COD: f"{_IS_FIRST} AND outcome = '{State.GOT}'",
}


def ended_in(counts: str = "ended") -> str:
    """Return SQL for the number of ended messages in a balance row, over all outcomes.

    ``counts`` is the column of its counts. A count is null in files of a version that did not know
    the outcome.
    """
    names = (*OUTCOME_CODES, OTHER_OUTCOMES)
    return " + ".join(f"coalesce({counts}.{name}, 0)" for name in names)


def conditions(late_after_ms: int = LATE_AFTER_MS) -> dict[str, str]:
    """Return for each of COUNT_NAMES the SQL condition of the ledger rows that it counts.

    ``late`` are messages got more than ``late_after_ms`` after their delivery time. ``owed_*`` are
    messages that owed a report of the kind in the name, as far as the ledger shows.
    """
    return {
        "lives": IS_LIFE,
        **{name: f"outcome = '{name}'" for name in OUTCOME_CODES},
        "late": f"{DURATIONS['waited']} > {late_after_ms}",
        **{
            name: f"(coalesce(report, 0) & {cause.value}) <> 0 AND {_OWING[cause]}"
            for name, cause in zip(OWED_NAMES, Cause, strict=True)
        },
    }
