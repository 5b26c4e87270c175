"""How long a pipeline keeps what it has claimed for release and does not renew (DDELAY)."""

from __future__ import annotations

from mayfly.lifetime.times import SECOND_MS

#: A claim on the staging queue lapses when its reader has said nothing for so long.
CLAIM_LAPSE_MS = 60 * SECOND_MS
#: A reader that lives renews its claims so often.
CLAIM_RENEWAL_MS = CLAIM_LAPSE_MS // 4


def claim_lapses_at_ms(renewed_ms: int) -> int:
    """Return the first moment at which a claim that was last renewed then is no longer kept."""
    return renewed_ms + CLAIM_LAPSE_MS
