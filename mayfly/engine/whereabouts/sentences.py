"""Text about messages: one sentence on where they are or how they ended, and steps by time."""

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
from mayfly.verbs.contracts.outcomes import MetBy
from mayfly.verbs.stories import Relation, Stay, Step

#: A life that ended so goes on elsewhere, so that it is not the end of the story.
GOES_ON = (State.RELEASED, State.DEAD_LETTERED)
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
#: How a message stands, before the name of its queue.
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
#: The words before the name of the user, program or channel that met an expired message.
_OF_SOMEBODY: dict[str, str] = {
    MetBy.GET: "a get of",
    MetBy.BROWSE: "a browse of",
    MetBy.CHANNEL: "channel",
    MetBy.CLAIM: "a claim of consumer",
}
#: The words where no name is known, or needed.
_OF_NOBODY: dict[str, str] = {
    MetBy.GET: "a get",
    MetBy.BROWSE: "a browse",
    MetBy.SCAN: "the expiry scan",
    MetBy.RELEASE: "the delay processor",
    MetBy.CHANNEL: "a channel",
    MetBy.CLAIM: "a claim of a pipeline",
    MetBy.COMMIT: "the commit of its unit of work",
    MetBy.PUT: "its put",
    MetBy.TOPIC: "a publication or subscription to its topic",
}


def sentence_of(stays: Sequence[Stay], now_ms: int, *, is_cut: bool) -> str:
    """Return in one sentence what became of the messages that were found."""
    own = [stay for stay in stays if stay.relation == Relation.MESSAGE]
    told = _ends(own or [s for s in stays if s.relation == Relation.CORRELATED] or list(stays))
    if len(told) == 1:
        return _clause(told[0], stays, now_ms)
    counted = Counter(f"{_short(stay, now_ms)} {stay.queue}" for stay in told)
    parts = ", ".join(f"{count:,} {what}" for what, count in counted.items())
    which = "MsgId" if own else "CorrelId"
    more = ", and there may be more" if is_cut else ""
    return f"{len(told):,} messages have this {which}: {parts}{more}."


def sentence_of_nothing(
    manager_name: str, identifier: bytes, oldest: tuple[int, int] | None, lost_count: int
) -> str:
    """Return sentences on an id that no message here has: how far back the ledger goes.

    ``oldest`` are position and moment of the oldest row of the ledger, ``lost_count`` the number of
    non-persistent messages that restarts have taken.
    """
    said = (
        f"{manager_name} knows no message with this MsgId or CorrelId: it is on no queue, not "
        "delayed, not claimed, in no open unit of work, and the ledger tells of none"
    )
    if oldest is None:
        said += "."
    elif oldest[0] > 1:
        said += f"; of what ended before {spelled_moment(oldest[1])} the ledger tells no more."
    else:
        said += f", back to its first row of {spelled_moment(oldest[1])}."
    maker = _maker(identifier)
    if maker and not manager_name.startswith(maker):
        said += f" Queue manager {maker} has made this id: ask there."
    elif maker:
        said += " The id was made here: its put may have been backed out, which leaves no record."
    if lost_count:
        said += (
            f" {lost_count:,} non-persistent messages ended with a restart; after a crash they are "
            "counted, and not named."
        )
    return said


def _ends(stays: list[Stay]) -> list[Stay]:
    """Return where each message is or ended last: copies of a publication are several."""
    newest_ms: dict[tuple[bytes, str], int] = {}
    for stay in stays:
        name = stay.msg_id, stay.queue_manager
        newest_ms[name] = max(newest_ms.get(name, 0), stay.put_ms)
    ends = [
        stay
        for stay in stays
        # A message got and put again, by a handler of dead letters or a bridge, has a later put.
        if stay.ended_ms is None
        or (stay.state not in GOES_ON and stay.put_ms == newest_ms[stay.msg_id, stay.queue_manager])
    ]
    return ends or stays[-1:]


def _clause(stay: Stay, stays: Sequence[Stay], now_ms: int) -> str:
    if stay.state == State.EXPIRED:
        return _expired(stay) + _report(stay, stays, now_ms) + "."
    if stay.state == State.GOT:
        return _got(stay, stays)
    if stay.state in _SENTENCES:
        return _SENTENCES[stay.state](stay, now_ms)
    return _ended_otherwise(stay)


def _uncommitted(stay: Stay, now_ms: int) -> str:
    where = f"for {stay.target}" if stay.target else f"on {stay.queue}"
    said = f"It was put {where} in {stay.holder}"
    if is_expired(stay.expire_at_ms, now_ms):
        # E17.
        return f"{said}; its deadline, {deadline(stay)}, has passed: the commit discards it."
    return f"{said}: nobody else sees it before the commit."


def _delayed(stay: Stay, now_ms: int) -> str:
    due = spelled_moment(stay.deliver_at_ms)
    if stay.holder:
        return f"It was due at {due} for {stay.target}, and {stay.holder} has it."
    if is_due(stay.deliver_at_ms, now_ms):
        said = f"It was due on {stay.target} at {due} and waits to be released"
    else:
        left = spelled_duration(stay.deliver_at_ms - now_ms)
        said = f"It waits for its delivery time: due on {stay.target} at {due}, in {left}"
    hindered = f"; nothing is released by the queue manager: {stay.hindrance}"
    return said + (hindered if stay.hindrance else "") + _until(stay, now_ms) + "."


def _available(stay: Stay, now_ms: int) -> str:
    if is_expired(stay.expire_at_ms, now_ms):
        owes = stay.report & MQRO_EXPIRATION
        report = f" and sends the report that it owes to {stay.reply_to_q}" if owes else ""
        return (
            f"It expired on {stay.queue} at {deadline(stay)}{_because(stay)} and is still there: "
            f"the next get, "
            f"browse or expiry scan that meets it discards it{report}."
        )
    until = _until(stay, now_ms)
    if stay.relation == Relation.REPORT:
        return f"A report about it, {cause_name(stay.reason)}, is on {stay.queue}{until}."
    if stay.reason:
        kept = f" from {stay.target}" if stay.target else ""
        return (
            f"It is a dead letter on {stay.queue}: {cause_name(stay.reason)} kept it{kept}{until}."
        )
    if stay.target:
        return f"It is on its way to {stay.target}: it waits on {stay.queue}{until}."
    if stay.hindrance:
        return f"It is on {stay.queue}, and cannot be got: {stay.hindrance}{until}."
    return f"It is on {stay.queue} and can be got{until}."


def _locked(stay: Stay, now_ms: int) -> str:
    where = f"on {stay.queue}"
    if stay.target and not stay.reason:
        # Delayed, or in transit: its target says more than its queue.
        where = f"on its way to {stay.target}, {where}"
    said = f"It is {where}, and {stay.holder} has it"
    if is_expired(stay.expire_at_ms, now_ms):
        # E15: nothing expires while it is locked.
        return f"{said}; its deadline, {deadline(stay)}, has passed: given back, it expires."
    return f"{said}{_until(stay, now_ms)}."


def _got(stay: Stay, stays: Sequence[Stay]) -> str:
    # A released or dead-lettered message came to its queue when its life before that ended.
    came_ms = (
        _ended(other)
        for other in stays
        if other.state in GOES_ON and (other.msg_id, other.put_ms) == (stay.msg_id, stay.put_ms)
    )
    after = spelled_duration(_ended(stay) - max(stay.deliver_at_ms, *came_ms, 0))
    return f"It was got from {stay.queue} at {_by_whom(stay)}, {after} after it could first be got."


def _expired(stay: Stay) -> str:
    assert stay.expire_at_ms is not None
    if stay.queue == STAGING_QUEUE:
        due = spelled_moment(stay.deliver_at_ms)
        if stay.deliver_at_ms < stay.expire_at_ms:
            # Committed late, or nothing was released then.
            said = f"It expired at {deadline(stay)}, before it was released; it was due at {due}"
        else:
            said = f"It expired at {deadline(stay)}, while it waited for its delivery time, {due}"
        return f"{said},{_because(stay)}" if stay.capped_by else said
    said = f"It expired on {stay.queue} at {deadline(stay)}"
    if stay.capped_by:
        return said + _because(stay)
    life = spelled_duration(stay.expire_at_ms - stay.put_ms)
    return f"{said}, {life} after its put, and nobody had got it"


def _because(stay: Stay) -> str:
    return f" because {cap_of(stay)}" if stay.capped_by else ""


def _report(stay: Stay, stays: Sequence[Stay], now_ms: int) -> str:
    """Return what became of the report that an expired message owed."""
    if not stay.report & MQRO_EXPIRATION:
        return "; it asked for no report"
    reports = _ends([other for other in stays if other.relation == Relation.REPORT])
    if not reports:
        return f"; of the report that it owed to {stay.reply_to_q} nothing is known here"
    report = reports[-1]
    if report.ended_ms is None and report.target and report.reason == MQFB_EXPIRATION:
        return f"; its report is on its way to {report.target}: it waits on {report.queue}"
    if report.ended_ms is None and report.reason and report.target:
        return f"; its report is a dead letter on {report.queue}: {cause_name(report.reason)}"
    if report.ended_ms is None and not is_expired(report.expire_at_ms, now_ms):
        return f"; its report is on {report.queue}"
    return f"; its report {_short(report, now_ms)} {report.queue}"


def _ended_otherwise(stay: Stay) -> str:
    """Return the sentence on a life that has neither expired nor ended by a get."""
    sentence = _ENDS.get(stay.state, "Its life on {queue} ended at {at}: {outcome}.")
    return sentence.format(
        queue=stay.queue,
        at=spelled_moment(_ended(stay)),
        by=_by_whom(stay),
        due=spelled_moment(stay.deliver_at_ms),
        cause=cause_name(stay.reason),
        channel=f" by channel {stay.ended_by}" if stay.ended_by else "",
        outcome=stay.state.replace("_", "-"),
    )


_SENTENCES: dict[str, Callable[[Stay, int], str]] = {
    State.UNCOMMITTED: _uncommitted,
    State.DELAYED: _delayed,
    State.AVAILABLE: _available,
    State.LOCKED: _locked,
}


def _short(stay: Stay, now_ms: int) -> str:
    if stay.state == State.AVAILABLE and is_expired(stay.expire_at_ms, now_ms):
        return "expired and still on"
    return _SHORT.get(stay.state, f"is {stay.state} on")


def _until(stay: Stay, now_ms: int) -> str:
    if stay.expire_at_ms is None:
        return "; it never expires"
    left = spelled_duration(max(stay.expire_at_ms - now_ms, 0))
    return f", until it expires at {deadline(stay)}, in {left}"


def deadline(stay: Stay) -> str:
    """Return the moment of the expiry of a message that has one."""
    assert stay.expire_at_ms is not None
    return spelled_moment(stay.expire_at_ms)


def _by_whom(stay: Stay) -> str:
    """Return when a life ended, and by which user."""
    user = f" by {ender_of(stay)}" if stay.ended_by else ""
    return spelled_moment(_ended(stay)) + user


def _ended(stay: Stay) -> int:
    assert stay.ended_ms is not None
    return stay.ended_ms


def _maker(identifier: bytes) -> str:
    """Return the queue manager whose name stands in a generated MsgId, as much as it tells."""
    if not identifier.startswith(GENERATED_PREFIX):
        return ""
    end = _NAME_END if key_of_delayed_id(identifier) is None else _SHORT_NAME_END
    return identifier[len(GENERATED_PREFIX) : end].decode("ascii", "replace").strip()


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
        ender = stay.ended_by, stay.ended_program
        steps.append(Step(*_standing(stay, now_ms), stay.queue_manager, *ender))
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


def _standing(stay: Stay, now_ms: int) -> tuple[int, str, str, str]:
    """Return the end of a stay, or how it stands now: time, what, queue, text."""
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


def cap_of(stay: Stay) -> str:
    """Return the object and the cap by which a life was shortened, empty for none."""
    if not stay.capped_by:
        return ""
    cap = read_cap(stay.capped_by)
    if cap is None:
        return f"{stay.capped_by} shortened its life"
    life = spelled_duration(ms_of_tenths(cap.tenths))
    return f"{_KINDS.get(cap.kind, cap.kind)} {cap.name} caps lives at {life}"


def with_caps_of_senders(stays: Sequence[Stay]) -> list[Stay]:
    """Return stays with the cap of the queue manager that sent the message, where it counts here.

    The rest of a life travels, the cap that shortened it does not. The object of such a cap is
    ``NAME@MANAGER``.
    """
    capped = {s.msg_id: s for s in stays if s.state == State.TRANSMITTED and s.capped_by}
    return [_as_sent(stay, capped.get(stay.msg_id)) for stay in stays] if capped else list(stays)


def _as_sent(stay: Stay, sent: Stay | None) -> Stay:
    is_elsewhere = sent is not None and sent.queue_manager != stay.queue_manager
    if sent is None or not is_elsewhere or stay.capped_by or stay.expire_at_ms is None:
        return stay
    cap = read_cap(sent.capped_by)
    if cap is None or stay.put_ms < sent.put_ms:
        return stay
    name = f"{cap.name}@{sent.queue_manager}"
    return stay._replace(capped_by=cap._replace(name=name).text)


def ender_of(stay: Stay) -> str:
    """Return ``user (program)`` of the end of a life, or the one of the two that is known."""
    if stay.ended_by and stay.ended_program:
        return f"{stay.ended_by} ({stay.ended_program})"
    return stay.ended_by or stay.ended_program


def meeting_of(stay: Stay) -> str:
    """Return what met an expired message, empty where the ledger does not tell."""
    who = ender_of(stay)
    if who and stay.met_by in _OF_SOMEBODY:
        return f"{_OF_SOMEBODY[stay.met_by]} {who}"
    return _OF_NOBODY.get(stay.met_by, stay.met_by)
