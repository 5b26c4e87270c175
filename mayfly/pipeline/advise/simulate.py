"""Simulates a listener with one setting over recorded arrivals: how its transactions end.

It takes the arrivals of messages on one queue, with gaps, rate and bursts, and the durations of
on_message: a constant, percentiles, or measured times.

Every session is always in a transaction: it waits in its receive, or works on a message. Within a
millisecond ends come first, then arrivals, then receives. A receive that ends without a message
rolls its transaction back and begins the next. Such rollbacks are not simulated one by one; they
are counted when the session is needed again. The functions here run unchanged as Python, over
lists, and compiled by numba, over int64 arrays. They follow the rules L3 to L9 of
docs/LISTENERS.md.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from mayfly.lifetime.columns import NONE, Ints, windows_at_put
from mayfly.lifetime.moments import is_expired, is_timed_out
from mayfly.pipeline.advise.settings import AdviseError, ListenSettings, check_bounds
from mayfly.pipeline.replay.kernel import NEVER_MS, compiler_with, is_worth_compiling, replace_first
from mayfly.pipeline.replay.trace import PRIORITY_MAX, arranged, numbers

HOUR_MS = 3_600_000
_LISTED_QUEUES = 10


class QueueArrivals(NamedTuple):
    """The messages of one queue, in the order in which they became available for a get.

    ``expire_at_ms`` is NEVER_MS without a deadline. Of several waiting messages the one with the
    lowest ``rank`` is taken first: higher priority, then earlier arrival, as MSGDLVSQ(PRIORITY).
    """

    queue: str
    available_ms: Ints
    expire_at_ms: Ints
    rank: Ints

    @property
    def span_ms(self) -> int:
        """The time in ms from the first arrival to the last."""
        return int(self.available_ms[-1] - self.available_ms[0])


class ArrivalSummary(NamedTuple):
    """The arrivals in numbers; gaps are the times between one message and the next.

    ``gap_variation`` is their standard deviation divided by their mean: 0 for regular arrivals, 1
    for independent ones (Poisson), more for bursts. Arrivals all in one millisecond have no gaps:
    None.
    """

    queue: str
    messages: int
    first_ms: int
    last_ms: int
    per_hour: float | None = None
    gap_mean_ms: float | None = None
    gap_p50_ms: float | None = None
    gap_p95_ms: float | None = None
    gap_p99_ms: float | None = None
    gap_max_ms: float | None = None
    gap_variation: float | None = None


def arrivals_of(trace: pa.Table, queue: str | None = None) -> QueueArrivals:
    """Return the arrivals on a queue of a trace: a table with a row for each recorded message.

    ``queue`` None is the trace's only queue. A delayed message arrives at its delivery time; one
    whose put would be refused is left out. Raises AdviseError when nothing arrives, when the trace
    does not have ``queue``, and for None when it has several queues.
    """
    in_order = arranged(trace)
    chosen = _chosen_queue(in_order.queues, queue)
    place = in_order.queues.index(chosen)
    rows = in_order.rows.slice(
        in_order.bounds[place], in_order.bounds[place + 1] - in_order.bounds[place]
    )
    windows = windows_at_put(
        numbers(rows["put_ms"]),
        numbers(rows["life_ms"]),
        numbers(pc.fill_null(rows["delay_ms"], 0)),
    )
    kept = ~windows.refused
    if not kept.any():
        raise AdviseError(f"every put to queue {chosen!r} would be refused: nothing arrives")
    priority = numbers(pc.fill_null(rows["priority"], 0))[kept]
    available_ms, expire_at_ms = windows.deliver_at_ms[kept], windows.expire_at_ms[kept]
    order = np.argsort(available_ms, kind="stable")
    return QueueArrivals(
        chosen,
        available_ms[order],
        np.where(expire_at_ms == NONE, NEVER_MS, expire_at_ms)[order],
        _ranks(PRIORITY_MAX - priority[order]),
    )


def summary_of(arrivals: QueueArrivals) -> ArrivalSummary:
    """Return the arrivals in numbers; times and rates are None if all came in one millisecond."""
    available_ms = arrivals.available_ms
    first_ms, last_ms = int(available_ms[0]), int(available_ms[-1])
    head = (arrivals.queue, len(available_ms), first_ms, last_ms)
    gaps_ms = np.diff(available_ms)
    if not arrivals.span_ms:
        return ArrivalSummary(*head)
    mean_ms = float(gaps_ms.mean())
    p50_ms, p95_ms, p99_ms = (float(np.percentile(gaps_ms, rank)) for rank in (50, 95, 99))
    return ArrivalSummary(
        *head,
        per_hour=HOUR_MS / mean_ms,
        gap_mean_ms=mean_ms,
        gap_p50_ms=p50_ms,
        gap_p95_ms=p95_ms,
        gap_p99_ms=p99_ms,
        gap_max_ms=float(gaps_ms.max()),
        gap_variation=float(gaps_ms.std()) / mean_ms,
    )


def _chosen_queue(queues: list[str], queue: str | None) -> str:
    """Return ``queue``, or for None the only queue.

    Raises AdviseError if ``queue`` is unknown, if there are several, or none at all.
    """
    if not queues:
        raise AdviseError("there is no message in it")
    known = ", ".join(queues[:_LISTED_QUEUES])
    if queue is None and len(queues) > 1:
        raise AdviseError(f"there are {len(queues)} queues: name one of {known}")
    if queue is not None and queue not in queues:
        raise AdviseError(f"there is no message on queue {queue!r}; it has {known}")
    return queues[0] if queue is None else queue


def _ranks(level: Ints) -> Ints:
    """Return for each message its place, from 0, in the order in which messages are received.

    A lower ``level`` (the highest priority is 0) comes first; equal levels keep their order.
    """
    ranks = np.empty(len(level), dtype=np.int64)
    ranks[np.argsort(level, kind="stable")] = np.arange(len(level))
    return ranks


#: The column of a file that holds measured times.
COLUMN = "on_message_ms"
_PERCENTILE = re.compile(r"p(\d{1,2}(?:\.\d+)?)")


class Durations(NamedTuple):
    """Times of on_message as quantiles: a share ``shares[n]`` takes at most ``at_ms[n]`` ms.

    Shares are from 0 to 1; between two shares the times increase linearly.
    """

    shares: tuple[float, ...]
    at_ms: tuple[int, ...]

    @property
    def longest_ms(self) -> int:
        """The longest on_message in ms."""
        return self.at_ms[-1]

    def drawn(self, count: int, seed: int) -> Ints:
        """Return a random time in ms for each of ``count`` messages, the same for the same seed."""
        return self.at(np.random.default_rng(seed).random(count))

    def at(self, shares: np.typing.NDArray[np.float64]) -> Ints:
        """Return for each share (0 to 1) the time in ms within which this share is done.

        A share is one of all messages. The times are rounded up.
        """
        return np.ceil(np.interp(shares, self.shares, self.at_ms)).astype(np.int64)


def always(on_message_ms: int) -> Durations:
    """Return a constant time in ms for every message; 0 is allowed.

    Raises AdviseError for a value out of range.
    """
    check_bounds(longest_on_message_ms=on_message_ms)
    return Durations((0.0, 1.0), (on_message_ms, on_message_ms))


def sampled(times_ms: Ints) -> Durations:
    """Return measured times in ms as quantiles.

    Raises AdviseError for an empty sample or a time out of range.
    """
    if not len(times_ms):
        raise AdviseError("there is no time to learn from")
    check_bounds(longest_on_message_ms=int(times_ms.min()))
    check_bounds(longest_on_message_ms=int(times_ms.max()))
    ordered = np.sort(times_ms)
    if len(ordered) == 1:
        return always(int(ordered[0]))
    return Durations(tuple(np.linspace(0, 1, len(ordered)).tolist()), tuple(ordered.tolist()))


def from_text(text: str, duration_ms: Callable[[str], int]) -> Durations:
    """Return the durations in a text such as ``15s`` or ``p50=2s,p99=9s,max=15s``.

    ``max`` is required with percentiles. ``duration_ms`` parses one time. Below the lowest
    percentile times increase linearly from 0. Raises AdviseError, which quotes the wrong part.
    """
    if "=" not in text:
        return always(duration_ms(text))
    points = {0.0: 0}
    for part in text.split(","):
        name, _, value = part.strip().partition("=")
        share = _share(name, text)
        if share in points:
            raise AdviseError(f"{text!r} says {name} twice")
        points[share] = duration_ms(value)
        check_bounds(longest_on_message_ms=points[share])
    if 1.0 not in points:
        raise AdviseError(f"{text!r} has no max: the longest decides what is safe")
    shares, at_ms = zip(*sorted(points.items()), strict=True)
    if list(at_ms) != sorted(at_ms):
        raise AdviseError(f"{text!r} does not rise: a higher percentile cannot be shorter")
    return Durations(shares, at_ms)


def from_file(file: Path) -> Durations:
    """Return the measured times in column on_message_ms of a CSV file, as quantiles.

    Raises AdviseError for a wrong file or time, and OSError when the file cannot be read.
    """
    try:
        with pyarrow.csv.open_csv(file) as reader:
            if COLUMN not in reader.schema.names:
                has = ", ".join(reader.schema.names)
                raise AdviseError(f"{file} has no column {COLUMN!r}; it has {has}")
        options = pyarrow.csv.ConvertOptions(
            include_columns=[COLUMN], column_types={COLUMN: pa.int64()}
        )
        column = pyarrow.csv.read_csv(file, convert_options=options)[COLUMN]
    except pa.ArrowInvalid as error:
        raise AdviseError(f"{file}: {str(error).partition(chr(10))[0]}") from error
    if column.null_count:
        raise AdviseError(f"{file}: column {COLUMN!r} is empty in {column.null_count} rows")
    try:
        return sampled(column.to_numpy())
    except AdviseError as error:
        raise AdviseError(f"{file}: column {COLUMN!r}: {error}") from error


def _share(name: str, text: str) -> float:
    """Return the share (0 to 1) that a name such as ``p95`` or ``max`` stands for.

    Raises AdviseError, which quotes ``text``, for another name.
    """
    if name == "max":
        return 1.0
    found = _PERCENTILE.fullmatch(name)
    if found is None or not float(found[1]):
        raise AdviseError(
            f"{text!r}: {name!r} is not p1 to p99 or max, as in p50=2s,p99=9s,max=15s"
        )
    return float(found[1]) / 100


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
