"""Live figures as server-sent events: everything, or what has changed since the look before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from mayfly.engine.face.operating import BOUNDS_MS, PUT, LatenessCounts, LiveFigures, LiveQueue
from mayfly.lifetime.life import State
from mayfly.lifetime.times import SECOND_MS

_RATES: Final = {
    "put_per_s": PUT,
    "got_per_s": State.GOT.value,
    "released_per_s": State.RELEASED.value,
    "expired_per_s": State.EXPIRED.value,
}
#: Members that change with time alone.
_OF_TIME: Final = frozenset({"now_ms", "expired_as_of_ms", "interval_ms", "next_due_in_ms"})
_encode = msgspec.json.Encoder().encode


class Look(NamedTuple):
    """The figures of one moment, and the overview that was made of them and those before."""

    figures: LiveFigures
    overview: dict[str, Any]


def look_of(figures: LiveFigures, before: Look | None) -> Look:
    """Return the look at some figures; rates and lateness count from the look before."""
    return Look(figures, _overview(None if before is None else before.figures, figures))


def everything(look: Look, frame_id: str) -> bytes:
    """Return the events of a frame that tells all that is known."""
    queues = {
        "whole": True,
        "queues": [_queue(name, one) for name, one in look.figures.queues.items()],
        "others": _several(look.figures.others),
    }
    return _event("overview", look.overview) + _event("queues", queues, frame_id)


def changes(before: Look, look: Look, frame_id: str) -> bytes:
    """Return the events of a frame that tells what has changed; empty when only time has passed."""
    old, new = before.figures, look.figures
    events: list[tuple[str, Any]] = []
    if _without_time(look.overview) != _without_time(before.overview):
        events.append(("overview", look.overview))
    changed = [_queue(name, one) for name, one in new.queues.items() if old.queues.get(name) != one]
    if changed or new.others != old.others:
        told = {"whole": False, "queues": changed, "others": _several(new.others)}
        events.append(("queues", told))
    gone = sorted(old.queues.keys() - new.queues.keys())
    if gone:
        events.append(("gone", {"queues": gone}))
    # A client that has read a part of a frame asks for all that came behind the frame before.
    last = len(events) - 1
    return b"".join(
        _event(name, told, frame_id if place == last else "")
        for place, (name, told) in enumerate(events)
    )


def end_event(why: str) -> bytes:
    """Return the event behind which nothing comes."""
    return _event("end", {"why": why})


def _event(name: str, told: Any, frame_id: str = "") -> bytes:
    head = f"event: {name}\n" + (f"id: {frame_id}\n" if frame_id else "")
    return b"%bdata: %b\n\n" % (head.encode(), _encode(told))


def _queue(name: str, one: LiveQueue) -> dict[str, Any]:
    return {"name": name} | _several(one) | {"oldest_put_ms": one.oldest_put_ms}


def _several(one: LiveQueue) -> dict[str, Any]:
    return {
        "depth": one.depth,
        "present": one.present._asdict(),
        "input_count": one.input_count,
        "output_count": one.output_count,
        "puts": one.puts,
        "ended": dict(one.ended),
    }


def _without_time(overview: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in overview.items() if name not in _OF_TIME}


def _overview(before: LiveFigures | None, now: LiveFigures) -> dict[str, Any]:
    interval_ms = 0 if before is None else now.now_ms - before.now_ms
    due_ms = now.next_due_ms
    return {
        "now_ms": now.now_ms,
        **now.present._asdict(),
        "expired_as_of_ms": now.expired_as_of_ms,
        "in_transit": now.in_transit_count,
        "dead_letters": now.dead_letter_count,
        "next_due_ms": due_ms,
        "next_due_in_ms": None if due_ms is None else due_ms - now.now_ms,
        "is_releasing": now.is_releasing,
        "interval_ms": interval_ms or None,
        "rates": _rates(before, now, interval_ms),
        "release_lateness": _lateness(before and before.release_lateness, now.release_lateness),
        "expiry_lateness": _lateness(before and before.expiry_lateness, now.expiry_lateness),
        "ledger_first": now.ledger_first,
        "ledger_last": now.ledger_last,
        "connections": now.connection_count,
        "queue_count": now.queue_count,
        "is_disk_full": now.is_disk_full,
    }


def _rates(
    before: LiveFigures | None, now: LiveFigures, interval_ms: int
) -> dict[str, float] | None:
    if before is None or not interval_ms:
        return None
    flow = Counter(now.flow)
    flow.subtract(before.flow)
    rates = {name: flow.pop(word, 0) for name, word in _RATES.items()}
    rates["ended_otherwise_per_s"] = flow.total()
    return {name: round(n * SECOND_MS / interval_ms, 1) for name, n in rates.items()}


def _lateness(before: LatenessCounts | None, now: LatenessCounts) -> dict[str, Any] | None:
    """Return how late moments were met since the look before; None without any."""
    if before is None:
        return None
    counts = [b - a for a, b in zip(before.counts, now.counts, strict=True)]
    count = sum(counts)
    if not count:
        return None
    highest = max(place for place, n in enumerate(counts) if n)
    return {
        "count": count,
        "mean_ms": round((now.sum_ms - before.sum_ms) / count, 1),
        # Behind the last bound there is none.
        "at_most_ms": BOUNDS_MS[highest] if highest < len(BOUNDS_MS) else None,
    }
