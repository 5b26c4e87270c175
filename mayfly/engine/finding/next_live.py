"""Finds the next live message: not expired and selected; and the expired messages before.

Selectors are evaluated without holding the lock for long, and their results are remembered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias
from weakref import WeakSet

from mayfly.engine.core import Core
from mayfly.engine.finding.search import ANY, Match, asker, fields_of, in_order
from mayfly.engine.queues import PERSISTENT, VOLATILE, Found, LocalQueue
from mayfly.engine.requester import Requester
from mayfly.lifetime.moments import is_expired
from mayfly.runtime.compiling import weakly_held
from mayfly.store.units import StoredMessage
from mayfly.verbs.properties.selectors.selector import Selector

#: Characters that a selector may compare while the lock is held, for one message (some 0.1 ms) and
#: for all messages of one turn of the lock. With more, it is evaluated while the lock is free.
LONG_WORK, TURN_WORK = 100_000, 4_000_000
#: Messages that a selector refuses in one turn of the lock, some 5 ms, and bytes of their bodies,
#: fewer when it reads them often.
REFUSALS, REFUSED_BYTES = 1_000, 4 * 1024 * 1024
#: More characters than the descriptor has, and what the staging queue shows before a body.
FIXED_SIZE = 512
#: The one name whose value changes although nothing happens to a message on its queue.
_FLEETING = "Root.MQMD.Expiry"
#: Messages that a search ahead reads at first; the next page is longer by this factor.
_FIRST_PAGE, _PAGE_GROWTH = 1, 8


def work_on(selector: Selector, row: StoredMessage) -> int:
    """Return how many characters at most a selector compares to evaluate a row."""
    size = FIXED_SIZE + len(row.body) + (0 if row.topic is None else len(row.topic))
    work = selector.work * size
    # A body is longer than its header; most need not be looked at.
    return work if work <= LONG_WORK else selector.work_on(fields_of(row, 0))


def is_long(selector: Selector, row: StoredMessage) -> bool:
    """Return True if evaluating a selector for a row takes too long under the engine lock."""
    return work_on(selector, row) > LONG_WORK


class SelectorResults:
    """The results of a selector in one search, by message, and the rows still to be evaluated.

    A result is valid for a message as it was: after a backout it is evaluated again. It does not
    say that the message still exists; the search under the lock finds that out.
    """

    __slots__ = ("dead", "results", "unevaluated")

    def __init__(self) -> None:
        """Begin without results."""
        #: Key -> backout count, and whether the selector takes it.
        self.results: dict[int, tuple[int, bool]] = {}
        #: Rows for :meth:`evaluate`, in order.
        self.unevaluated: list[StoredMessage] = []
        #: Key and persistence of expired messages found in earlier turns of the lock, to be
        #: discarded when the search finds a live one (K7).
        self.dead: list[tuple[int, int]] = []

    def of(self, row: StoredMessage) -> bool | None:
        """Return whether the selector selects a row; None if that row has not been evaluated."""
        known = self.results.get(row.k)
        return known[1] if known is not None and known[0] == row.backout_count else None

    def note(self, row: StoredMessage, *, takes: bool) -> None:
        """Store whether the selector selects a row: ``takes`` is its result."""
        self.results[row.k] = row.backout_count, takes

    def evaluate(self, selects: Callable[[StoredMessage], bool]) -> None:
        """Evaluate the selector for all rows in ``unevaluated``, and store the results.

        Call it without the engine lock, as it may take long.
        """
        unevaluated, self.unevaluated = self.unevaluated, []
        for row in unevaluated:
            self.note(row, takes=selects(row))

    def clear(self) -> None:
        """Drop all results, rows to evaluate and noted expired messages, for another search."""
        self.results.clear()
        self.unevaluated.clear()
        self.dead.clear()


#: Those of a search without a selector: nothing is ever noted in them.
NO_RESULTS = SelectorResults()


@weakly_held
class SelectorProgress:
    """How far a search by selector has come: visible messages with lower keys were refused.

    Messages that became visible since may precede it; ``lower`` notes that. A pass is a search from
    this key to the end of the queue. It may take several steps, each under the lock, with work of
    other threads in between.
    """

    __slots__ = (
        "__weakref__",
        "_again_from",
        "_core",
        "_is_kept",
        "_is_passing",
        "_key",
        "_queue",
        "match",
        "selector_results",
    )

    def __init__(self, core: Core, queue: LocalQueue, match: Match) -> None:
        """Begin at the start of a queue, which notifies this object of messages that appear."""
        assert match.selector is not None
        self.match = match
        self._core = core
        self._queue = queue
        self._key = queue.low
        self._again_from: int | None = None
        self._is_passing = False
        #: Answers of the selector in this pass, given without the lock.
        self.selector_results = SelectorResults()
        # Arrivals on the staging queue are not notified.
        self._is_kept = _FLEETING not in match.selector.needs and not queue.is_staging
        if queue.watchers is None:
            queue.watchers = WeakSet()
        queue.watchers.add(self)

    @property
    def is_behind(self) -> bool:
        """Whether a message before the reached key became visible, so another search is needed."""
        return self._again_from is not None

    def lower(self, key: int) -> None:
        """Note that the message with this key, and maybe later ones, has become visible."""
        if key < self._key:
            self._again_from = key if self._again_from is None else min(self._again_from, key)

    def lower_from(self, key: int) -> None:
        """Note that messages with this key or higher ones may have become visible."""
        self.lower(key)

    def begin(self, *, from_start: bool = False) -> None:
        """Let the next step begin a new search to the end of the queue.

        The search begins at the reached key, or with ``from_start`` at the first key of the queue.
        Results of the selector are dropped.
        """
        self._is_passing = False
        selector_results = self.selector_results
        if selector_results.results or selector_results.dead or selector_results.unevaluated:
            selector_results.clear()
        if from_start:
            self._again_from = self._queue.low

    def step_from(self, low: int) -> int:
        """Return the key at which the next step of the search begins, at least ``low``.

        A new search goes back to messages that have become visible since the last search passed
        them.
        """
        if not self._is_passing:
            if not self._is_kept:
                self._key = self._queue.low
            elif self._again_from is not None:
                self._key = min(self._key, self._again_from)
            self._again_from = None
        return max(low, self._key)

    def reach(self, key: int, *, is_end: bool) -> None:
        """Set the key that a step of the search has reached, and whether the search ends there."""
        self._key, self._is_passing = key, not is_end
        if is_end and (self.selector_results.results or self.selector_results.dead):
            self.selector_results.clear()

    def search_ahead(self, requester: Requester) -> None:
        """Search on to the next message that the selector selects, mostly without the engine lock.

        It stops there or at the end of the queue. The next step finds out whether the message still
        exists. Raises MQRC_CONNECTION_BROKEN, and the error of a requester that has ended.
        """
        core, selector_results = self._core, self.selector_results
        rows: list[StoredMessage] | None = None
        size = _FIRST_PAGE
        if selector_results.unevaluated:
            selector_results.evaluate(self._asker(requester))
        while self._is_passing and rows != []:
            with core.engine_lock:
                # In this order: a queue manager that has been closed has no messages to read.
                selects = self._asker(requester)
                rows = self._page(requester, size)
            for row in rows:
                if selects(row):
                    self._key = row.k
                    selector_results.note(row, takes=True)
                    return
                self._key = row.k + 1
            size *= _PAGE_GROWTH

    def _asker(self, requester: Requester) -> Callable[[StoredMessage], bool]:
        """Return a function that says whether the selector selects a row.

        Raises MQRC_CONNECTION_BROKEN, and the error of a requester that has ended.
        """
        core = self._core
        with core.engine_lock:
            core.check_running()
            requester.check()
            return asker(self.match, core, self._queue, core.now_ms())

    def _page(self, requester: Requester, size: int) -> list[StoredMessage]:
        """Return up to ``size`` rows from the reached key on, fewer when their bodies are long."""
        rows: list[StoredMessage] = []
        max_rows, body_bytes = min(size, REFUSALS), 0
        for row, _persistence in in_order(
            self._core, self._queue, self.match, self._key, requester
        ):
            rows.append(row)
            body_bytes += len(row.body)
            if len(rows) >= max_rows or body_bytes >= REFUSED_BYTES:
                break
        return rows


def place_for(
    place: SelectorProgress | None, core: Core, queue: LocalQueue, match: Match
) -> SelectorProgress | None:
    """Return the search progress for a match with a selector: ``place`` if that has the same match.

    Otherwise it is a new one. For a match without a selector it returns ``place``, which may be
    None.
    """
    if match.selector is None or (place is not None and place.match == match):
        return place
    with core.engine_lock:
        return SelectorProgress(core, queue, match)


#: Expired messages that one turn of the lock skips; then they are discarded before it continues.
DISCARD_BATCH = 1_000
#: The result of a search: a live message or None; the expired messages before it; the key at which
#: the search continues; and whether it was cut short. It is cut short after DISCARD_BATCH expired
#: messages, after as many refused ones as one turn of the lock has time for, or at one for which
#: the selector takes too long. A named tuple would cost each get 0.3 µs.
Look: TypeAlias = tuple[tuple[StoredMessage, int] | None, list[Found], int, bool]


def look(
    core: Core,
    queue: LocalQueue,
    match: Match,
    low: int,
    now_ms: int,
    *,
    before: int | None,
    in_parts: bool,
    requester: Requester | None,
    selector_results: SelectorResults = NO_RESULTS,
) -> Look:
    """Find the first message with ``low <= k < before`` that matches and has not expired.

    ``k`` is its key; ``before`` None is no limit. Returns (message or None, the expired messages
    that were passed on the way, key at which a search continues, whether the search was cut short).
    Messages that the selector refuses are skipped, expired or not. Messages locked by the
    ``requester`` are visible to it. With ``in_parts`` one call does a bounded amount of work, and
    stops before a slow selector evaluation. ``selector_results`` holds earlier results of the
    selector. Nothing is removed from the queue. The engine lock is held.
    """
    if match is ANY and low == queue.low and takes_next(queue, requester):
        found = first_visible(queue)
        if found is None or (before is not None and before < found[0].k):
            return None, [], low, False
        row = found[0]
        if row.expire_at_ms is None or not is_expired(row.expire_at_ms, now_ms):
            return found, [], row.k, False
    # The shortest get is spared the question, a fortieth of it.
    assert core.engine_lock.is_held()
    # A look that may discard nothing on its own must find out whether there is a live one (K7).
    may_discard = core.settings.discard_on_empty
    selector, selects, has_results = match.selector, None, bool(selector_results.results)
    short_bytes = left_bytes = 0
    if selector is not None:
        selects = asker(match, core, queue, now_ms)
        short_bytes = LONG_WORK // (selector.work + 1) - FIXED_SIZE
        left_bytes = min(REFUSED_BYTES, TURN_WORK // (selector.work + 1))
    expired: list[Found] = []
    reached, refused_count = low, 0
    for row, persistence in in_order(core, queue, match, low, requester):
        if before is not None and before < row.k:
            break
        if selects is not None:
            body_bytes = len(row.body)
            is_taken = selector_results.of(row) if has_results else None
            if is_taken is None:
                # A body is longer than its header: most need not be looked at for that.
                if in_parts and (body_bytes > short_bytes or row.topic is not None):
                    assert selector is not None
                    if is_long(selector, row):
                        return _cut(expired, row.k, selector_results, may_discard=may_discard)
                is_taken = selects(row)
            if not is_taken:
                reached = row.k + 1
                refused_count += 1
                left_bytes -= body_bytes
                if in_parts and (refused_count >= REFUSALS or left_bytes <= 0):
                    return _cut(expired, reached, selector_results, may_discard=may_discard)
                continue
        if not is_expired(row.expire_at_ms, now_ms):
            if selector_results.dead:
                expired = _with_dead(expired, queue, selector_results, requester)
            return (row, persistence), expired, row.k, False
        expired.append((queue, row, persistence))
        reached = row.k + 1
        if len(expired) == DISCARD_BATCH and in_parts and may_discard:
            return None, expired, reached, True
    if selector_results.dead:
        expired = _with_dead(expired, queue, selector_results, requester)
    if expired and not may_discard:
        reached = expired[0][1].k
    return None, expired, reached, False


def _cut(
    expired: list[Found], reached: int, selector_results: SelectorResults, *, may_discard: bool
) -> Look:
    """Return the result of a search that was cut short and continues at the key ``reached``.

    ``expired`` are the expired messages found so far. With ``may_discard`` they are in the result,
    and the caller discards them. Without it they are noted in ``selector_results.dead``, for the
    end of the search.
    """
    if not may_discard:
        selector_results.dead += [(row.k, persistence) for _queue, row, persistence in expired]
        expired = []
    return None, expired, reached, True


def _with_dead(
    expired: list[Found],
    queue: LocalQueue,
    selector_results: SelectorResults,
    requester: Requester | None,
) -> list[Found]:
    """Return the expired messages that earlier parts of the search have noted, then ``expired``.

    The noted ones are in ``selector_results.dead``. Those that are gone, or that another than the
    ``requester`` hides, are left out.
    """
    queue_owner, found = queue.owner, list[Found]()
    for key, persistence in selector_results.dead:
        row = queue_owner.messages(persistence).row(key)
        if row is not None and queue_owner.hidden.get(key, requester) is requester:
            found.append((queue, row, persistence))
    return found + expired if found else expired


def takes_next(queue: LocalQueue, requester: Requester | None) -> bool:
    """Return True if the requester simply gets the first visible message of a queue.

    False on the staging queue, and when the requester has locked a message that only it sees (B5).
    """
    return not queue.is_staging and (requester is None or requester.locked is None)


def first_visible(queue: LocalQueue) -> tuple[StoredMessage, int] | None:
    """Return the first visible message, expired or not, with its persistence; else None."""
    volatile, persistent = queue.present
    one = _first_of(queue, VOLATILE) if volatile else None
    other = _first_of(queue, PERSISTENT) if persistent else None
    if one is None or (other is not None and other.k < one.k):
        return None if other is None else (other, PERSISTENT)
    return one, VOLATILE


def _first_of(queue: LocalQueue, persistence: int) -> StoredMessage | None:
    """Return the first visible message with one persistence; None if none is visible."""
    queue_owner, ahead, first = queue.owner, queue.ahead[persistence], queue.first[persistence]
    row = ahead.next(queue_owner.hidden, first)
    if row is None and not ahead.has_all:
        row = ahead.read(queue_owner.messages(persistence), queue_owner.hidden, first, queue.high)
    return row
