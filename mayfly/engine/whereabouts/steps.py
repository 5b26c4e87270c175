"""Tells what happened to messages and how they stand, step by step, in order of time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from mayfly.engine.whereabouts.sentences import GOES_ON, deadline
from mayfly.engine.whereabouts.wording import cap_of, ender_of, meeting_of
from mayfly.lifetime.life import State
from mayfly.lifetime.moments import is_expired
from mayfly.lifetime.times import spelled_moment
from mayfly.mqi.reasons import cause_name
from mayfly.verbs.stories import Relation, Stay, Step

_BEGINNINGS = {Relation.REPORT: "report", Relation.CORRELATED: "correlated"}


def steps_of(stays: Sequence[Stay], now_ms: int) -> Iterator[Step]:
    """Yield what happened and how things stand, in order of time."""
    steps: list[Step] = []
    begun: set[tuple[bytes, int, str]] = set()
    sent: dict[bytes, str] = {}
    counts = Counter(_birth(s) for s in stays if s.state not in GOES_ON)
    topics = {_birth(s): s.topic for s in stays if s.topic}
    for place, stay in enumerate(stays):
        target = stay.target or _next_target(stay, stays[place + 1 :])
        # A released or dead-lettered message goes on under the same MsgId, from the same put.
        birth = _birth(stay)
        if birth not in begun:
            step = _beginning(stay, target or stay.queue, counts[birth])
            if birth in topics:
                step = step._replace(
                    what="published", queue="", text=f"{topics[birth]}: {step.text}"
                )
            came = sent.get(stay.msg_id, stay.queue_manager) != stay.queue_manager
            steps.append(step._replace(what="arrived") if came else step)
        begun.add(birth)
        if stay.state == State.TRANSMITTED:
            sent[stay.msg_id] = stay.queue_manager
        steps.append(_standing(stay, now_ms))
    return iter(sorted(steps, key=lambda step: step.at_ms))


def _birth(stay: Stay) -> tuple[bytes, int, str]:
    """Return what the lives of one message at one queue manager have in common."""
    return stay.msg_id, stay.put_ms, stay.queue_manager


def _next_target(stay: Stay, later: Sequence[Stay]) -> str:
    """Return the queue that a life which went on elsewhere was meant for, as far as that tells.

    Of a dead letter that was got, the ledger no longer tells its queue.
    """
    if stay.state not in GOES_ON:
        return ""
    here = (s for s in later if (s.msg_id, s.put_ms) == (stay.msg_id, stay.put_ms))
    following = next(here, None)
    if following is None or following.target:
        return "" if following is None else following.target
    return following.queue if stay.state == State.RELEASED else ""


def _beginning(stay: Stay, queue: str, count: int) -> Step:
    """Return the put of a message, by the queue it was meant for; ``count`` have its MsgId."""
    parts = [
        f"MsgId {stay.msg_id.hex()}" if stay.relation == Relation.CORRELATED else "",
        f"{count:,} messages" if count > 1 else "",
        f"by {stay.user_identifier}" if stay.user_identifier else "",
        "1 byte" if stay.body_bytes == 1 else f"{stay.body_bytes:,} bytes",
        "persistent" if stay.persistent else "not persistent",
        f"due {spelled_moment(stay.deliver_at_ms)}" if stay.deliver_at_ms > stay.put_ms else "",
        "never expires" if stay.expire_at_ms is None else f"expires {deadline(stay)}",
        cap_of(stay),
    ]
    text = ", ".join(part for part in parts if part)
    what = _BEGINNINGS.get(Relation(stay.relation), "put")
    putter = stay.user_identifier, stay.program
    return Step(stay.put_ms, what, queue, text, stay.queue_manager, *putter)


def _standing(stay: Stay, now_ms: int) -> Step:
    """Return the end of a stay, or how it stands now."""
    ender = stay.ended_by, stay.ended_program
    return Step(*_named(stay, now_ms), stay.queue_manager, *ender)


def _named(stay: Stay, now_ms: int) -> tuple[int, str, str, str]:
    who = "report " if stay.relation == Relation.REPORT else ""
    if stay.ended_ms is None:
        if stay.state == State.AVAILABLE and is_expired(stay.expire_at_ms, now_ms):
            assert stay.expire_at_ms is not None
            return stay.expire_at_ms, f"{who}expired", stay.queue, "not discarded yet"
        text = ", ".join(part for part in (stay.holder, stay.hindrance, _cause(stay)) if part)
        return now_ms, f"{who}{stay.state}", stay.queue, text
    what = who + stay.state.replace("_", "-")
    if stay.state == State.EXPIRED:
        assert stay.expire_at_ms is not None
        meeting = meeting_of(stay)
        met = f", met by {meeting}" if meeting else ""
        found = f"discarded {spelled_moment(stay.ended_ms)}{met}"
        return stay.expire_at_ms, what, stay.queue, found
    kind = "channel " if stay.state == State.TRANSMITTED else ""
    parts = [
        f"by {kind}{ender_of(stay)}" if stay.ended_by else "",
        f"backout count {stay.backout_count}" if stay.backout_count else _cause(stay),
    ]
    return stay.ended_ms, what, stay.queue, ", ".join(part for part in parts if part)


def _cause(stay: Stay) -> str:
    named = cause_name(stay.reason) if stay.reason else ""
    return f"{named} for {stay.target}".strip() if stay.target else named
