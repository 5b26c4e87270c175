"""How long claims on the staging queue last: rule DDELAY.

A pipeline claims due messages to release them, and renews the claim while it lives. A claim that is
not renewed lapses, and its messages are due again.
"""

from __future__ import annotations

from mayfly.lifetime.times import SECOND_MS

#: A claim lapses after this time without a renewal.
CLAIM_LAPSE_MS = 60 * SECOND_MS
#: Interval at which a live reader renews: three renewals may be lost before the claim lapses.
CLAIM_RENEWAL_MS = CLAIM_LAPSE_MS // 4


def claim_lapses_at_ms(renewed_ms: int) -> int:
    """Return the first moment at which a claim last renewed at this moment has lapsed."""
    return renewed_ms + CLAIM_LAPSE_MS
