"""The next message that is alive, and the expired ones met on the way to it."""

from __future__ import annotations

from typing import NamedTuple

from mayfly.engine.core import Core
from mayfly.engine.holder import Holder
from mayfly.engine.queues import Found, LocalQueue
from mayfly.engine.search import Match, in_order
from mayfly.lifetime.window import is_expired
from mayfly.store.units import StoredMessage

#: Expired messages that one turn of the latch passes over; then they are discarded, and on.
DISCARD_BATCH = 1_000


class Look(NamedTuple):
    """What was met: a live message or None, expired ones before it; ``is_cut`` when not at the end.

    A look that was cut short has met DISCARD_BATCH expired messages and nothing alive yet.
    """

    alive: tuple[StoredMessage, int] | None
    expired: list[Found]
    is_cut: bool = False


def look(
    core: Core,
    queue: LocalQueue,
    match: Match,
    low: int,
    *,
    before: int | None,
    in_parts: bool,
    holder: Holder | None,
) -> Look:
    """Look for the first live message with ``low <= k < before`` that the holder may see.

    Call it with the latch held.
    """
    now_ms = core.now_ms()
    # A look that may discard nothing on its own must find out whether there is a live one (K7).
    is_bounded = in_parts and core.settings.discard_on_empty
    expired: list[Found] = []
    for row, side in in_order(core, queue, match, low, holder):
        if before is not None and before < row.k:
            break
        if not is_expired(row.expire_at_ms, now_ms):
            return Look((row, side), expired)
        expired.append((queue, row, side))
        if is_bounded and len(expired) == DISCARD_BATCH:
            return Look(None, expired, is_cut=True)
    return Look(None, expired)
