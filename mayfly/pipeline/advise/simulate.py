"""Simulates a listener with one setting over recorded arrivals: how its transactions end.

Every session is always in a transaction: it waits in its receive, or works on a message. Within a
millisecond ends come first, then arrivals, then receives. A receive that ends without a message
rolls its transaction back and begins the next. Such rollbacks are not simulated one by one; they
are counted when the session is needed again. The functions here run unchanged as Python, over
lists, and compiled by numba, over int64 arrays. They follow the rules L3 to L9 of
docs/LISTENERS.md.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from mayfly.lifetime.columns import Ints
from mayfly.lifetime.moments import is_expired
from mayfly.lifetime.time_limits import is_timed_out
from mayfly.pipeline.advise.arrivals import HOUR_MS, QueueArrivals
from mayfly.pipeline.advise.settings import ListenSettings
from mayfly.pipeline.replay.kernel import NEVER_MS, compiler_with, is_worth_compiling, replace_first

#: A BOTHRESH above this is taken for none.
_ATTEMPTS_MAX = 100
#: An int64 array where numba runs, a list where Python does.
Numbers: TypeAlias = Any
#: Places in the row of counts.
IDLE, TAKEN, AGAIN, COMMITTED, NEEDLESS, OVERLONG, REQUEUED, EXPIRED, LEFT, LAST_MS, WAITING = (
    range(11)
)
COUNTS = 11
_NOBODY = -1


class Simulated(NamedTuple):
    """The numbers of transactions from the first arrival until all work was done.

    ``taken`` counts transactions with a message; each ends ``committed`` or rolled back. A rollback
    is ``needless`` if the message came so late in the receive that on_message did not fit into the
    rest of the lifetime. It is ``overlong`` if on_message takes the whole lifetime: no receive
    timeout helps. ``messages_hit`` were rolled back needlessly at least once. ``requeued`` messages
    have reached BOTHRESH, ``expired`` ones were found too late, ``left`` ones were still rolled
    back at the end.
    """

    messages: int
    taken: int
    committed: int
    needless: int
    overlong: int
    messages_hit: int
    redeliveries: int
    backouts_max: int
    requeued: int
    expired: int
    left: int
    idle_rollbacks: int
    idle_rollbacks_per_hour: float

    @property
    def needless_share(self) -> float:
        """The share, 0 to 1, of transactions with a message that were rolled back needlessly."""
        return self.needless / self.taken if self.taken else 0.0


def simulate(
    arrivals: QueueArrivals,
    setting: ListenSettings,
    on_message_ms: Ints,
    *,
    with_kernel: ListenKernel | None = None,
) -> Simulated:
    """Simulate a listener with a setting over arrivals, and return the numbers of transactions.

    ``on_message_ms`` is the duration for each message. ``with_kernel`` is the simulation loop, None
    the faster one. All sessions begin their first receive at the first arrival. A message that is
    there at the exact end of a receive is taken; a transaction that ends exactly at its lifetime is
    rolled back. A message without BOTHRESH that is still rolled back long after the last arrival is
    given up, because it would come back for ever. Raises AdviseError if the setting has no receive
    timeout.
    """
    count = len(arrivals.available_ms)
    chosen = with_kernel or kernel_for(count, setting.max_sessions)
    messages = _messages(arrivals, on_message_ms, chosen)
    sessions = _sessions(int(arrivals.available_ms[0]), setting.max_sessions, chosen)
    rules = Rules(
        setting.timeout_ms,
        setting.lifetime_ms,
        setting.bothresh,
        give_up_ms(int(arrivals.available_ms[-1]), int(on_message_ms.max()), setting),
    )
    counts = chosen.column(np.zeros(COUNTS, dtype=np.int64))
    chosen.listen(messages, sessions, rules, counts)
    return _result(arrivals, setting, messages, sessions, counts)


def give_up_ms(last_ms: int, longest_ms: int, setting: ListenSettings) -> int:
    """Return the moment after which a rolled-back message is not tried again.

    NEVER_MS if BOTHRESH ends the attempts. ``last_ms`` is the last arrival and ``longest_ms`` the
    longest on_message.
    """
    if 0 < setting.bothresh <= _ATTEMPTS_MAX:
        return NEVER_MS
    attempts = min(setting.bothresh, _ATTEMPTS_MAX) + 1
    return last_ms + attempts * (setting.lifetime_ms + setting.timeout_ms + longest_ms)


def _messages(
    arrivals: QueueArrivals, on_message_ms: Ints, chosen: ListenKernel
) -> ArrivingMessages:
    """Return the arrivals as columns for the simulation loop; none waits or was rolled back.

    ``on_message_ms`` is the duration for each message. ``chosen`` is the loop, which decides the
    type of the columns.
    """
    column = chosen.column
    nothing = np.zeros(len(on_message_ms), dtype=np.int64)
    return ArrivingMessages(
        column(arrivals.available_ms),
        column(arrivals.expire_at_ms),
        column(on_message_ms),
        column(arrivals.rank),
        column(np.argsort(arrivals.rank)),
        column(nothing.copy()),
        column(nothing.copy()),
        column(nothing.copy()),
    )


def _sessions(begin_ms: int, count: int, chosen: ListenKernel) -> Sessions:
    """Return ``count`` sessions as columns for the simulation loop, waiting since ``begin_ms``.

    ``chosen`` is the loop, which decides the type of the columns.
    """
    column = chosen.column
    return Sessions(*(column(np.full(count, value)) for value in (begin_ms, -1, NEVER_MS)))


def _result(
    arrivals: QueueArrivals,
    setting: ListenSettings,
    messages: ArrivingMessages,
    sessions: Sessions,
    counts: Ints,
) -> Simulated:
    """Return the numbers of a simulation from its columns after the end."""
    last_ms = int(counts[LAST_MS])
    idle = int(counts[IDLE])
    for begin_ms in sessions.begin_ms:
        idle += empty_receives(last_ms - int(begin_ms), setting.timeout_ms)
    hours = (last_ms - int(arrivals.available_ms[0])) / HOUR_MS
    backouts = np.asarray(messages.backouts)
    taken = int(counts[TAKEN])
    return Simulated(
        messages=len(backouts),
        taken=taken,
        committed=int(counts[COMMITTED]),
        needless=int(counts[NEEDLESS]),
        overlong=int(counts[OVERLONG]),
        messages_hit=int(np.count_nonzero(messages.needless)),
        redeliveries=int(counts[AGAIN]),
        backouts_max=int(backouts.max()),
        requeued=int(counts[REQUEUED]),
        expired=int(counts[EXPIRED]),
        left=int(counts[LEFT]),
        idle_rollbacks=idle,
        idle_rollbacks_per_hour=idle / hours if hours else 0.0,
    )


class ArrivingMessages(NamedTuple):
    """The messages in order of arrival, as columns, and the heap of those that wait.

    ``rank`` sorts waiting messages, lowest first; ``by_rank`` is its inverse. ``backouts`` counts
    the rollbacks of a message, ``needless`` those that another receive timeout would have avoided.
    ``waiting`` is the heap, of ranks.
    """

    available_ms: Numbers
    expire_at_ms: Numbers
    on_message_ms: Numbers
    rank: Numbers
    by_rank: Numbers
    backouts: Numbers
    needless: Numbers
    waiting: Numbers


class Sessions(NamedTuple):
    """The sessions as columns: begin of the transaction, its message, and the end of the work.

    The message is _NOBODY while a session waits in its receive.
    """

    begin_ms: Numbers
    message: Numbers
    until_ms: Numbers


class Rules(NamedTuple):
    """The setting to simulate; after ``give_up_ms`` a rolled-back message is not tried again."""

    timeout_ms: int
    lifetime_ms: int
    bothresh: int
    give_up_ms: int


def listen(messages: ArrivingMessages, sessions: Sessions, rules: Rules, counts: Numbers) -> None:
    """Simulate a listener's sessions over all messages until the last work is done.

    ``rules`` is the setting to simulate. The function counts into ``counts``, an array with one
    number at each index from IDLE to WAITING. It also changes ``messages`` and ``sessions``.
    """
    arrival_count, arrival = len(messages.available_ms), 0
    while True:
        now_ms = _next_end(sessions)
        if arrival < arrival_count:
            now_ms = min(now_ms, messages.available_ms[arrival])
        if now_ms == NEVER_MS:
            return
        counts[LAST_MS] = now_ms
        _end_work(now_ms, messages, sessions, rules, counts)
        while arrival < arrival_count and messages.available_ms[arrival] <= now_ms:
            _add(messages.rank[arrival], messages.waiting, counts)
            arrival += 1
        _receive(now_ms, messages, sessions, rules, counts)


def _next_end(sessions: Sessions) -> int:
    """Return the ms at which the next transaction with a message ends, NEVER_MS if none works."""
    end_ms = NEVER_MS
    for until_ms in sessions.until_ms:
        end_ms = min(end_ms, until_ms)
    return end_ms


def _end_work(
    now_ms: int, messages: ArrivingMessages, sessions: Sessions, rules: Rules, counts: Numbers
) -> None:
    """Commit or roll back the transactions whose work ends at ``now_ms``, and count them.

    A rolled-back message waits to be received again. After the moment ``rules.give_up_ms`` it is
    counted as left instead.
    """
    for session in range(len(sessions.until_ms)):
        if sessions.until_ms[session] != now_ms:
            continue
        message = sessions.message[session]
        begin_ms = sessions.begin_ms[session]
        sessions.message[session] = _NOBODY
        sessions.until_ms[session] = NEVER_MS
        sessions.begin_ms[session] = now_ms
        if not is_timed_out(now_ms - begin_ms, rules.lifetime_ms):
            counts[COMMITTED] += 1
            continue
        messages.backouts[message] += 1
        if is_timed_out(messages.on_message_ms[message], rules.lifetime_ms):
            counts[OVERLONG] += 1
        else:
            counts[NEEDLESS] += 1
            messages.needless[message] += 1
        if now_ms > rules.give_up_ms:
            counts[LEFT] += 1
        else:
            _add(messages.rank[message], messages.waiting, counts)


def _receive(
    now_ms: int, messages: ArrivingMessages, sessions: Sessions, rules: Rules, counts: Numbers
) -> None:
    """Give waiting messages to waiting sessions, longest wait first, until one of both is used up.

    A message that has expired is dropped and counted. One that has reached BOTHRESH is moved away
    and counted; if this transaction has timed out by then, the message waits on.
    """
    while counts[WAITING] > 0:
        session = _longest_waiting(now_ms, sessions, rules.timeout_ms)
        if session == _NOBODY:
            return
        message = messages.by_rank[messages.waiting[0]]
        _remove_first(messages.waiting, counts)
        if is_expired(messages.expire_at_ms[message], now_ms):
            counts[EXPIRED] += 1
            continue
        empty = empty_receives(now_ms - sessions.begin_ms[session], rules.timeout_ms)
        counts[IDLE] += empty
        sessions.begin_ms[session] += empty * rules.timeout_ms
        if not 0 < rules.bothresh <= messages.backouts[message]:
            counts[TAKEN] += 1
            counts[AGAIN] += min(messages.backouts[message], 1)
            sessions.message[session] = message
            sessions.until_ms[session] = now_ms + messages.on_message_ms[message]
        elif is_timed_out(now_ms - sessions.begin_ms[session], rules.lifetime_ms):
            # Moving the message away for BOTHRESH is part of the transaction, late already.
            sessions.begin_ms[session] = now_ms
            _add(messages.rank[message], messages.waiting, counts)
        else:
            sessions.begin_ms[session] = now_ms
            counts[REQUEUED] += 1


def _longest_waiting(now_ms: int, sessions: Sessions, timeout_ms: int) -> int:
    """Return the session whose present receive began first, _NOBODY if all sessions work.

    A receive lasts at most ``timeout_ms``; then the next one of the session begins.
    """
    chosen, longest_ms = _NOBODY, -1
    for session in range(len(sessions.begin_ms)):
        if sessions.message[session] != _NOBODY:
            continue
        waited_ms = now_ms - sessions.begin_ms[session]
        waited_ms -= empty_receives(waited_ms, timeout_ms) * timeout_ms
        if waited_ms > longest_ms:
            chosen, longest_ms = session, waited_ms
    return chosen


def empty_receives(waited_ms: int, timeout_ms: int) -> int:
    """Return how many receives of ``timeout_ms`` ended without a message within ``waited_ms``.

    A receive whose timeout ends exactly now does not count, because it still takes a message.
    """
    return max(waited_ms - 1, 0) // timeout_ms


def _add(rank: int, heap: Numbers, counts: Numbers) -> None:
    """Add a message, by its rank, to the heap of waiting messages; counts[WAITING] grows by 1."""
    place = counts[WAITING]
    counts[WAITING] += 1
    while place > 0:
        above = (place - 1) // 2
        if heap[above] <= rank:
            break
        heap[place] = heap[above]
        place = above
    heap[place] = rank


def _remove_first(heap: Numbers, counts: Numbers) -> None:
    """Remove the message of the lowest rank from the heap; counts[WAITING] falls by 1.

    The heap must not be empty.
    """
    counts[WAITING] -= 1
    count = counts[WAITING]
    replace_first(heap, count, heap[count])


class ListenKernel(NamedTuple):
    """The function ``listen``, plain or compiled, and the function that converts its columns."""

    listen: Callable[[ArrivingMessages, Sessions, Rules, Numbers], None]
    column: Callable[[Ints], Numbers]


PLAIN = ListenKernel(listen, lambda column: column.tolist())


@functools.cache
def compiled() -> ListenKernel:
    """Return the simulation loop compiled by numba, cached on disk.

    Raises ModuleNotFoundError without numba.
    """
    compile_ = compiler_with(
        is_expired,
        is_timed_out,
        _next_end,
        _end_work,
        _receive,
        _longest_waiting,
        empty_receives,
        _add,
        _remove_first,
        replace_first,
    )
    return ListenKernel(compile_(listen), np.ascontiguousarray)


def kernel_for(message_count: int, session_count: int) -> ListenKernel:
    """Return the simulation loop as Python or compiled by numba, whichever is faster here.

    The work is ``message_count`` times ``session_count``. The results are the same. Without numba
    it is Python.
    """
    return compiled() if is_worth_compiling(message_count * session_count) else PLAIN
