"""Sentences and steps about messages, as text: where messages are or how they ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from mayfly.lifetime.life import State, read_cap
from mayfly.lifetime.moments import is_due, is_expired
from mayfly.lifetime.times import ms_of_tenths, spelled_duration, spelled_moment
from mayfly.mqi.constants import MQFB_EXPIRATION, MQRO_EXPIRATION
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.mqi.reasons import cause_name
from mayfly.store.keys import GENERATED_PREFIX, key_of_delayed_id
from mayfly.verbs.contracts.outcomes import DetectedBy
from mayfly.verbs.facts import Relation, Step, TraceEntry

#: After such an end of a life the message continues elsewhere, so the trace does not end here.
CONTINUES = (State.RELEASED, State.DEAD_LETTERED)
_NAME_END, _SHORT_NAME_END = 16, 11
#: Sentences on lives that have ended; a later version may have stored other outcomes.
_ENDS: dict[str, str] = {
    State.DEAD_LETTERED: (
        "It was dead-lettered at {at} with {cause}; of the dead letter nothing is known."
    ),
    State.DISCARDED: (
        "It was discarded at {at}: its queue refused it with {cause}, and its report options ask "
        "to discard it then."
    ),
    State.TRANSMITTED: (
        "It was sent to another queue manager at {at}, over transmission queue {queue}{channel}."
    ),
    State.RELEASED: "It was released to its queue at {at}; of its life there nothing is known.",
    State.CLEARED: "It was removed at {at}, when {queue} was cleared or deleted.",
    State.CANCELLED: "It was cancelled at {by}, before its delivery time, {due}.",
    State.LOST_AT_RESTART: (
        "It was not persistent, and {queue} lost it when the queue manager ended at {at}."
    ),
}
#: The state of a message, followed by the name of its queue.
_SHORT: dict[str, str] = {
    State.UNCOMMITTED: "not committed on",
    State.DELAYED: "delayed on",
    State.AVAILABLE: "can be got from",
    State.LOCKED: "locked on",
    State.GOT: "was got from",
    State.EXPIRED: "expired on",
    State.DEAD_LETTERED: "was dead-lettered from",
    State.DISCARDED: "was discarded from",
    State.TRANSMITTED: "was sent over",
    State.RELEASED: "was released from",
    State.CLEARED: "was cleared from",
    State.CANCELLED: "was cancelled on",
    State.LOST_AT_RESTART: "was lost from",
}
_BEGINNINGS = {Relation.REPORT: "report", Relation.CORRELATED: "correlated"}
_KINDS = {
    "QALIAS": "alias",
    "QLOCAL": "queue",
    "QMODEL": "model queue",
    "QREMOTE": "remote definition",
    "TOPIC": "topic object",
}
#: The words before the name of the user, program or channel that detected an expired message.
_OF_SOMEBODY: dict[str, str] = {
    DetectedBy.GET: "a get of",
    DetectedBy.BROWSE: "a browse of",
    DetectedBy.CHANNEL: "channel",
    DetectedBy.CLAIM: "a claim of consumer",
}
#: The words where no name is known, or needed.
_OF_NOBODY: dict[str, str] = {
    DetectedBy.GET: "a get",
    DetectedBy.BROWSE: "a browse",
    DetectedBy.SCAN: "the expiry scan",
    DetectedBy.RELEASE: "the delay processor",
    DetectedBy.CHANNEL: "a channel",
    DetectedBy.CLAIM: "a claim of a pipeline",
    DetectedBy.COMMIT: "the commit of its unit of work",
    DetectedBy.PUT: "its put",
    DetectedBy.TOPIC: "a publication or subscription to its topic",
}


def sentence_of(entries: Sequence[TraceEntry], now_ms: int, *, is_cut: bool) -> str:
    """Return one sentence on the messages found: the story of one, or counts by state for several.

    ``entries`` must not be empty. ``is_cut`` adds that there may be more.
    """
    own = [entry for entry in entries if entry.relation == Relation.MESSAGE]
    ends = _ends(own or [s for s in entries if s.relation == Relation.CORRELATED] or list(entries))
    if len(ends) == 1:
        return _clause(ends[0], entries, now_ms)
    counted = Counter(f"{_short(entry, now_ms)} {entry.queue}" for entry in ends)
    parts = ", ".join(f"{count:,} {what}" for what, count in counted.items())
    which = "MsgId" if own else "CorrelId"
    more = ", and there may be more" if is_cut else ""
    return f"{len(ends):,} messages have this {which}: {parts}{more}."


def sentence_of_nothing(
    manager_name: str, identifier: bytes, oldest: tuple[int, int] | None, lost_count: int
) -> str:
    """Return sentences for an id that no message here has: the places and times searched.

    ``oldest`` is position and time (ms since 1970) of the first ledger row, None for an empty
    ledger. ``lost_count`` is the number of non-persistent messages lost at restarts.
    """
    text = (
        f"{manager_name} knows no message with this MsgId or CorrelId: it is on no queue, not "
        "delayed, not claimed, in no open unit of work, and the ledger tells of none"
    )
    if oldest is None:
        text += "."
    elif oldest[0] > 1:
        text += f"; of what ended before {spelled_moment(oldest[1])} the ledger tells no more."
    else:
        text += f", back to its first row of {spelled_moment(oldest[1])}."
    maker = _maker(identifier)
    if maker and not manager_name.startswith(maker):
        text += f" Queue manager {maker} has made this id: ask there."
    elif maker:
        text += " The id was made here: its put may have been backed out, which leaves no record."
    if lost_count:
        text += (
            f" {lost_count:,} non-persistent messages ended with a restart; after a crash they are "
            "counted, and not named."
        )
    return text


def _ends(entries: list[TraceEntry]) -> list[TraceEntry]:
    """Return the last entry of each message: where it is, or how it finally ended.

    A publication has several, one for each copy. If no entry is such an end, because each message
    went on elsewhere, the last entry of all is returned.
    """
    newest_ms: dict[tuple[bytes, str], int] = {}
    for entry in entries:
        name = entry.msg_id, entry.queue_manager
        newest_ms[name] = max(newest_ms.get(name, 0), entry.put_ms)
    ends = [
        entry
        for entry in entries
        # A message got and put again, by a handler of dead letters or a bridge, has a later put.
        if entry.ended_ms is None
        or (
            entry.state not in CONTINUES
            and entry.put_ms == newest_ms[entry.msg_id, entry.queue_manager]
        )
    ]
    return ends or entries[-1:]


def _clause(entry: TraceEntry, entries: Sequence[TraceEntry], now_ms: int) -> str:
    """Return the full sentence on one entry, for any state; ``entries`` are all that were found."""
    if entry.state == State.EXPIRED:
        return _expired(entry) + _report(entry, entries, now_ms) + "."
    if entry.state == State.GOT:
        return _got(entry, entries)
    if entry.state in _SENTENCES:
        return _SENTENCES[entry.state](entry, now_ms)
    return _ended_otherwise(entry)


def _uncommitted(entry: TraceEntry, now_ms: int) -> str:
    """Return the sentence on a message put in a unit of work that is still open."""
    where = f"for {entry.target}" if entry.target else f"on {entry.queue}"
    text = f"It was put {where} in {entry.holder}"
    if is_expired(entry.expire_at_ms, now_ms):
        # E17.
        return f"{text}; its deadline, {deadline(entry)}, has passed: the commit discards it."
    return f"{text}: nobody else sees it before the commit."


def _delayed(entry: TraceEntry, now_ms: int) -> str:
    """Return the sentence on a message that waits for its delivery time, or its redelivery."""
    if entry.queue != STAGING_QUEUE:
        until = _until(entry, now_ms)
        return f"It is on {entry.queue}, and cannot be got: {entry.hindrance}{until}."
    due = spelled_moment(entry.deliver_at_ms)
    if entry.holder:
        return f"It was due at {due} for {entry.target}, and {entry.holder} has it."
    if is_due(entry.deliver_at_ms, now_ms):
        text = f"It was due on {entry.target} at {due} and waits to be released"
    else:
        left = spelled_duration(entry.deliver_at_ms - now_ms)
        text = f"It waits for its delivery time: due on {entry.target} at {due}, in {left}"
    hindered = f"; nothing is released by the queue manager: {entry.hindrance}"
    return text + (hindered if entry.hindrance else "") + _until(entry, now_ms) + "."


def _available(entry: TraceEntry, now_ms: int) -> str:
    """Return the sentence on a message that is on a queue and not locked.

    Covers expired messages not yet discarded, reports, dead letters and messages in transit.
    """
    if is_expired(entry.expire_at_ms, now_ms):
        owes = entry.report & MQRO_EXPIRATION
        report = f" and sends the report that it owes to {entry.reply_to_q}" if owes else ""
        return (
            f"It expired on {entry.queue} at {deadline(entry)}{_because(entry)} and is still "
            "there: the next get, "
            f"browse or expiry scan that meets it discards it{report}."
        )
    until = _until(entry, now_ms)
    if entry.relation == Relation.REPORT:
        return f"A report about it, {cause_name(entry.reason)}, is on {entry.queue}{until}."
    if entry.reason:
        kept = f" from {entry.target}" if entry.target else ""
        cause = cause_name(entry.reason)
        return f"It is a dead letter on {entry.queue}: {cause} kept it{kept}{until}."
    if entry.target:
        return f"It is on its way to {entry.target}: it waits on {entry.queue}{until}."
    if entry.hindrance:
        return f"It is on {entry.queue}, and cannot be got: {entry.hindrance}{until}."
    return f"It is on {entry.queue} and can be got{until}."


def _locked(entry: TraceEntry, now_ms: int) -> str:
    """Return the sentence on a locked message."""
    where = f"on {entry.queue}"
    if entry.target and not entry.reason:
        # Delayed, or in transit: its target says more than its queue.
        where = f"on its way to {entry.target}, {where}"
    text = f"It is {where}, and {entry.holder} has it"
    if is_expired(entry.expire_at_ms, now_ms):
        # E15: nothing expires while it is locked.
        return f"{text}; its deadline, {deadline(entry)}, has passed: given back, it expires."
    return f"{text}{_until(entry, now_ms)}."


def _got(entry: TraceEntry, entries: Sequence[TraceEntry]) -> str:
    """Return the sentence on a message that was got, with the time it had waited."""
    # A released or dead-lettered message came to its queue when its life before that ended.
    came_ms = (
        _ended(other)
        for other in entries
        if other.state in CONTINUES and (other.msg_id, other.put_ms) == (entry.msg_id, entry.put_ms)
    )
    after = spelled_duration(_ended(entry) - max(entry.deliver_at_ms, *came_ms, 0))
    return (
        f"It was got from {entry.queue} at {_by_whom(entry)}, {after} after it could first be got."
    )


def _expired(entry: TraceEntry) -> str:
    """Return the sentence on an expired message, without its end about the report."""
    assert entry.expire_at_ms is not None
    if entry.queue == STAGING_QUEUE:
        due = spelled_moment(entry.deliver_at_ms)
        if entry.deliver_at_ms < entry.expire_at_ms:
            # Committed late, or nothing was released then.
            text = f"It expired at {deadline(entry)}, before it was released; it was due at {due}"
        else:
            text = f"It expired at {deadline(entry)}, while it waited for its delivery time, {due}"
        return f"{text},{_because(entry)}" if entry.capped_by else text
    text = f"It expired on {entry.queue} at {deadline(entry)}"
    if entry.capped_by:
        return text + _because(entry)
    life = spelled_duration(entry.expire_at_ms - entry.put_ms)
    return f"{text}, {life} after its put, and nobody had got it"


def _because(entry: TraceEntry) -> str:
    """Return a clause on the expiry limit (CAPEXPRY) that shortened the time, empty without one."""
    return f" because {cap_of(entry)}" if entry.capped_by else ""


def _report(entry: TraceEntry, entries: Sequence[TraceEntry], now_ms: int) -> str:
    """Return a clause on the expiration report that an expired message asked for, and its place."""
    if not entry.report & MQRO_EXPIRATION:
        return "; it asked for no report"
    reports = _ends([other for other in entries if other.relation == Relation.REPORT])
    if not reports:
        return f"; of the report that it owed to {entry.reply_to_q} nothing is known here"
    report = reports[-1]
    if report.ended_ms is None and report.target and report.reason == MQFB_EXPIRATION:
        return f"; its report is on its way to {report.target}: it waits on {report.queue}"
    if report.ended_ms is None and report.reason and report.target:
        return f"; its report is a dead letter on {report.queue}: {cause_name(report.reason)}"
    if report.ended_ms is None and not is_expired(report.expire_at_ms, now_ms):
        return f"; its report is on {report.queue}"
    return f"; its report {_short(report, now_ms)} {report.queue}"


def _ended_otherwise(entry: TraceEntry) -> str:
    """Return the sentence on a message whose stay ended in another way than expiry or a get.

    States unknown to this version get a general sentence.
    """
    sentence = _ENDS.get(entry.state, "Its life on {queue} ended at {at}: {outcome}.")
    return sentence.format(
        queue=entry.queue,
        at=spelled_moment(_ended(entry)),
        by=_by_whom(entry),
        due=spelled_moment(entry.deliver_at_ms),
        cause=cause_name(entry.reason),
        channel=f" by channel {entry.ended_by}" if entry.ended_by else "",
        outcome=entry.state.replace("_", "-"),
    )


_SENTENCES: dict[str, Callable[[TraceEntry, int], str]] = {
    State.UNCOMMITTED: _uncommitted,
    State.DELAYED: _delayed,
    State.AVAILABLE: _available,
    State.LOCKED: _locked,
}


def _short(entry: TraceEntry, now_ms: int) -> str:
    """Return the state in a few words, such as ``was got from``, for a queue name to follow."""
    if entry.state == State.AVAILABLE and is_expired(entry.expire_at_ms, now_ms):
        return "expired and still on"
    return _SHORT.get(entry.state, f"is {entry.state} on")


def _until(entry: TraceEntry, now_ms: int) -> str:
    """Return a clause on when a message expires, or that it never does."""
    if entry.expire_at_ms is None:
        return "; it never expires"
    left = spelled_duration(max(entry.expire_at_ms - now_ms, 0))
    return f", until it expires at {deadline(entry)}, in {left}"


def deadline(entry: TraceEntry) -> str:
    """Return the time at which a message expires, as text; the message must have one."""
    assert entry.expire_at_ms is not None
    return spelled_moment(entry.expire_at_ms)


def _by_whom(entry: TraceEntry) -> str:
    """Return when a stay ended, and by which user: ``2026-11-20 17:00:05.250 by alice``."""
    user = f" by {ender_of(entry)}" if entry.ended_by else ""
    return spelled_moment(_ended(entry)) + user


def _ended(entry: TraceEntry) -> int:
    """Return the end time of an ended entry, in ms since 1970.

    Raises AssertionError for an entry of a message that exists now.
    """
    assert entry.ended_ms is not None
    return entry.ended_ms


def _maker(identifier: bytes) -> str:
    """Return the queue manager's name inside a generated MsgId, possibly cut.

    Empty for an id that no queue manager generated.
    """
    if not identifier.startswith(GENERATED_PREFIX):
        return ""
    end = _NAME_END if key_of_delayed_id(identifier) is None else _SHORT_NAME_END
    return identifier[len(GENERATED_PREFIX) : end].decode("ascii", "replace").strip()


def steps_of(entries: Sequence[TraceEntry], now_ms: int) -> Iterator[Step]:
    """Yield one step for each put, arrival and end, and for present states, sorted by time.

    ``entries`` are in order of time.
    """
    steps: list[Step] = []
    begun: set[tuple[bytes, int, str]] = set()
    sent: dict[bytes, str] = {}
    counts = Counter(_birth(s) for s in entries if s.state not in CONTINUES)
    topics = {_birth(s): s.topic for s in entries if s.topic}
    for place, entry in enumerate(entries):
        target = entry.target or _next_target(entry, entries[place + 1 :])
        # A released or dead-lettered message continues with the same MsgId and put time.
        birth = _birth(entry)
        if birth not in begun:
            step = _beginning(entry, target or entry.queue, counts[birth])
            if birth in topics:
                step = step._replace(
                    what="published", queue="", text=f"{topics[birth]}: {step.text}"
                )
            came = sent.get(entry.msg_id, entry.queue_manager) != entry.queue_manager
            steps.append(step._replace(what="arrived") if came else step)
        begun.add(birth)
        if entry.state == State.TRANSMITTED:
            sent[entry.msg_id] = entry.queue_manager
        ender = entry.ended_by, entry.ended_program
        steps.append(Step(*_last_step(entry, now_ms), entry.queue_manager, *ender))
    return iter(sorted(steps, key=lambda step: step.at_ms))


def _birth(entry: TraceEntry) -> tuple[bytes, int, str]:
    """Return MsgId, put time (ms since 1970) and queue manager name: the key of one message."""
    return entry.msg_id, entry.put_ms, entry.queue_manager


def _next_target(entry: TraceEntry, later: Sequence[TraceEntry]) -> str:
    """Return the queue to which a released or dead-lettered message went.

    ``later`` are the entries after it. Empty if unknown, as for a dead letter that was got, and for
    entries with other ends.
    """
    if entry.state not in CONTINUES:
        return ""
    here = (s for s in later if (s.msg_id, s.put_ms) == (entry.msg_id, entry.put_ms))
    following = next(here, None)
    if following is None or following.target:
        return "" if following is None else following.target
    return following.queue if entry.state == State.RELEASED else ""


def _beginning(entry: TraceEntry, queue: str, count: int) -> Step:
    """Return the step of a put to ``queue``, or of ``count`` puts with one MsgId and time."""
    parts = [
        f"MsgId {entry.msg_id.hex()}" if entry.relation == Relation.CORRELATED else "",
        f"{count:,} messages" if count > 1 else "",
        f"by {entry.user_identifier}" if entry.user_identifier else "",
        "1 byte" if entry.body_bytes == 1 else f"{entry.body_bytes:,} bytes",
        "persistent" if entry.persistent else "not persistent",
        f"due {spelled_moment(entry.deliver_at_ms)}" if entry.deliver_at_ms > entry.put_ms else "",
        "never expires" if entry.expire_at_ms is None else f"expires {deadline(entry)}",
        cap_of(entry),
    ]
    text = ", ".join(part for part in parts if part)
    what = _BEGINNINGS.get(Relation(entry.relation), "put")
    putter = entry.user_identifier, entry.program
    return Step(entry.put_ms, what, queue, text, entry.queue_manager, *putter)


def _last_step(entry: TraceEntry, now_ms: int) -> tuple[int, str, str, str]:
    """Return time, event, queue and text of the step that shows an entry's end or present state.

    The time is that of the end or expiry, or ``now_ms`` for a present message.
    """
    who = "report " if entry.relation == Relation.REPORT else ""
    if entry.ended_ms is None:
        if entry.state == State.AVAILABLE and is_expired(entry.expire_at_ms, now_ms):
            assert entry.expire_at_ms is not None
            return entry.expire_at_ms, f"{who}expired", entry.queue, "not discarded yet"
        text = ", ".join(part for part in (entry.holder, entry.hindrance, _cause(entry)) if part)
        return now_ms, f"{who}{entry.state}", entry.queue, text
    what = who + entry.state.replace("_", "-")
    if entry.state == State.EXPIRED:
        assert entry.expire_at_ms is not None
        detector = detector_of(entry)
        by = f", found by {detector}" if detector else ""
        text = f"discarded {spelled_moment(entry.ended_ms)}{by}"
        return entry.expire_at_ms, what, entry.queue, text
    kind = "channel " if entry.state == State.TRANSMITTED else ""
    parts = [
        f"by {kind}{ender_of(entry)}" if entry.ended_by else "",
        f"backout count {entry.backout_count}" if entry.backout_count else _cause(entry),
    ]
    return entry.ended_ms, what, entry.queue, ", ".join(part for part in parts if part)


def _cause(entry: TraceEntry) -> str:
    """Return reason and target of an entry: ``MQRC_Q_FULL for ORDERS``; empty without any."""
    named = cause_name(entry.reason) if entry.reason else ""
    return f"{named} for {entry.target}".strip() if entry.target else named


def cap_of(entry: TraceEntry) -> str:
    """Return text on the object whose expiry limit (CAPEXPRY) shortened a message's time.

    Empty when no limit shortened it. Example: ``queue ORDERS caps lives at 1 min``.
    """
    if not entry.capped_by:
        return ""
    cap = read_cap(entry.capped_by)
    if cap is None:
        return f"{entry.capped_by} shortened its life"
    life = spelled_duration(ms_of_tenths(cap.tenths))
    return f"{_KINDS.get(cap.kind, cap.kind)} {cap.name} caps lives at {life}"


def with_caps_of_senders(entries: Sequence[TraceEntry]) -> list[TraceEntry]:
    """Return entries, with the expiry limits (CAPEXPRY) of sending queue managers filled in.

    A shortened expiry travels with a message to another queue manager, but the object that
    shortened it does not. That object is named ``NAME@MANAGER``. Entries that know their limit stay
    unchanged.
    """
    capped = {s.msg_id: s for s in entries if s.state == State.TRANSMITTED and s.capped_by}
    return (
        [_as_sent(entry, capped.get(entry.msg_id)) for entry in entries]
        if capped
        else list(entries)
    )


def _as_sent(entry: TraceEntry, sent: TraceEntry | None) -> TraceEntry:
    """Return an entry with the expiry limit (CAPEXPRY) that ``sent`` names.

    ``sent`` is the transmission of the same message at another queue manager. The entry is
    unchanged if it is None or does not fit.
    """
    is_elsewhere = sent is not None and sent.queue_manager != entry.queue_manager
    if sent is None or not is_elsewhere or entry.capped_by or entry.expire_at_ms is None:
        return entry
    cap = read_cap(sent.capped_by)
    if cap is None or entry.put_ms < sent.put_ms:
        return entry
    name = f"{cap.name}@{sent.queue_manager}"
    return entry._replace(capped_by=cap._replace(name=name).text)


def ender_of(entry: TraceEntry) -> str:
    """Return who ended a message's stay: ``user (program)``, or only one; empty if unknown."""
    if entry.ended_by and entry.ended_program:
        return f"{entry.ended_by} ({entry.ended_program})"
    return entry.ended_by or entry.ended_program


def detector_of(entry: TraceEntry) -> str:
    """Return what detected that a message had expired: ``the expiry scan``, ``a get of alice``.

    Empty when the ledger does not record it.
    """
    who = ender_of(entry)
    if who and entry.detected_by in _OF_SOMEBODY:
        return f"{_OF_SOMEBODY[entry.detected_by]} {who}"
    return _OF_NOBODY.get(entry.detected_by, entry.detected_by)
