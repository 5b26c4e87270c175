"""Counting of messages by queue, and a check that counters, totals and messages agree."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from mayfly.engine.core import Core
from mayfly.engine.queues import PERSISTENT, VOLATILE, LocalQueue
from mayfly.lifetime.moments import is_expired
from mayfly.store.keys import queue_number_of
from mayfly.store.ledger_writer import Totals
from mayfly.store.messages import EXPIRED_BY_QUEUE, EXPIRED_OF_KEYS
from mayfly.verbs.facts import Counts, Verification


def counts_of(core: Core, name: str) -> Counts:
    """Return the message counts, by state, of the local queue that a name resolves to.

    Raises MQRC_UNKNOWN_OBJECT_NAME, MQRC_CONNECTION_BROKEN, MQRC_Q_MGR_STOPPING.
    """
    with core.engine_lock:
        core.check_running()
        return counts(core, core.registry.resolve(name).queue)


def depth_of(core: Core, name: str) -> int:
    """Return CURDEPTH of the queue that a name resolves to; raises MQRC_UNKNOWN_OBJECT_NAME."""
    with core.engine_lock:
        return core.registry.resolve(name).queue.depth


def counts(core: Core, queue: LocalQueue) -> Counts:
    """Return the counts of a queue by state of its messages; needs the engine lock."""
    assert core.engine_lock.is_held()
    queue_owner = queue.owner
    now_ms = core.now_ms()
    hidden = [key for key in queue_owner.hidden if queue.low <= key < queue.high]
    expired = sum(
        queue_owner.messages(persistence).count_expired(queue.low, queue.high, now_ms)
        for persistence in (VOLATILE, PERSISTENT)
        if queue.present[persistence]
    )
    for key in hidden if expired else ():
        for persistence in (VOLATILE, PERSISTENT):
            row = queue_owner.messages(persistence).row(key)
            if row is not None and is_expired(row.expire_at_ms, now_ms):
                expired -= 1
    return counts_with(queue, expired)


def counts_with(queue: LocalQueue, expired: int) -> Counts:
    """Return the counts of a queue when ``expired`` of its visible messages have expired.

    ``expired`` is lowered to the number of visible messages: some may have left since they were
    counted. Needs the engine lock.
    """
    assert queue.owner.engine_lock.is_held()
    visible = queue.depth - queue.uncommitted - queue.browse_locked
    expired = min(expired, visible)
    return Counts(
        queue.staged_for + queue.awaiting_redelivery,
        visible - expired,
        queue.uncommitted,
        queue.locked + queue.put_and_got + queue.browse_locked,
        expired,
    )


def expired_by_queue(core: Core, now_ms: int) -> Counter[int]:
    """Return the number of expired messages by queue number, persistent or not.

    Hidden messages, such as those of an open unit of work, are not counted. A queue without expired
    messages is left out. Call it without the engine lock. Its cost depends on how many messages are
    expired or hidden, not on the number of queues.
    """
    found = Counter[int](dict(core.store.statistics_reader.rows(EXPIRED_BY_QUEUE, (now_ms,))))
    with core.engine_lock:
        found.update(dict(core.messages(VOLATILE).fetch(EXPIRED_BY_QUEUE, (now_ms,))))
        if found and core.hidden:
            keys = json.dumps([*core.hidden])
            for persistence in (VOLATILE, PERSISTENT):
                rows = core.messages(persistence).fetch(EXPIRED_OF_KEYS, (keys, now_ms))
                found.subtract(dict(rows))
    # A message that came after the first count, and is hidden, was subtracted alone.
    return +found


def verify(core: Core) -> Verification:
    """Recount the messages of every queue; return each difference from counters and totals.

    Damaged or unreadable files of the store are problems, too. Nothing is repaired. Transactions
    wait during the recount. Raises MQRC_CONNECTION_BROKEN, MQRC_Q_MGR_STOPPING.
    """
    core.check_running()
    problems: list[str] = []
    messages = 0
    with core.engine_lock:
        core.committer.pause()
        try:
            totals = core.store.settled_totals()
            assert totals is not None
            hidden = Counter(queue_number_of(key) for key in core.hidden)
            for queue in core.registry.queues():
                # Also what a get has taken whose thread has not run its transaction yet.
                taken = hidden[queue.number] - queue.browse_locked
                messages += _check_queue(core, queue, taken, problems)
                problems.extend(_check_totals(queue, totals))
            problems.extend(_check_claims(core))
            problems.extend(core.store.check())
        finally:
            core.committer.resume()
    try:
        problems.extend(core.store.check_files())
    except OSError as error:
        problems.append(f"{error.filename} cannot be read: {error.strerror}")
    return Verification(not problems, tuple(problems), len(core.registry.queues()), messages)


def _check_queue(core: Core, queue: LocalQueue, taken: int, problems: list[str]) -> int:
    """Return the number of messages in the store for a queue; add wrong counters to ``problems``.

    ``taken`` is how many of them a get has hidden.
    """
    name = queue.name
    present = [
        core.messages(persistence).count(queue.low, queue.high)
        for persistence in (VOLATILE, PERSISTENT)
    ]
    if present != queue.present:
        problems.append(f"{name}: {present} messages by side, counted as {queue.present}")
    if queue.depth != sum(present) - taken + queue.uncommitted:
        problems.append(
            f"{name}: depth {queue.depth}, but {sum(present)} present, {taken} taken, "
            f"{queue.uncommitted} uncommitted"
        )
    return sum(present)


def _check_claims(core: Core) -> Iterator[str]:
    """Yield a problem if the number of messages reserved by Spark batches is not as counted."""
    counted = {queue.name: queue.claimed for queue in core.registry.queues() if queue.claimed}
    found = core.store.claimed.counts()
    if found != counted:
        yield f"{found} messages claimed, counted as {counted}"


def _check_totals(queue: LocalQueue, totals: dict[int, Totals]) -> Iterator[str]:
    """Yield a text for each difference between the stored totals of a queue and its counters."""
    name, present, claimed = queue.name, queue.present, queue.claimed
    own = totals.get(queue.number)
    if own is None:
        yield f"{name}: no totals"
    elif own.puts != (ended := sum(own.ended.values())) + own.present:
        yield f"{name}: {own.puts} put, but {ended} ended and {own.present} present"
    elif own.present != sum(present) + claimed or own.present_volatile != present[VOLATILE]:
        yield (
            f"{name}: totals say {own.present} present ({own.present_volatile} volatile), "
            f"found {present} and {claimed} claimed"
        )
    staged_for = totals.get(-queue.number)
    expected = 0 if staged_for is None or not queue.number else staged_for.present
    if queue.number and expected != queue.staged_for:
        yield f"{name}: {queue.staged_for} staged for it, totals say {expected}"


def volatile_count(core: Core) -> int:
    """Return the number of non-persistent messages, which the next close or crash loses."""
    with core.engine_lock:
        return sum(queue.present[VOLATILE] for queue in core.registry.queues())
