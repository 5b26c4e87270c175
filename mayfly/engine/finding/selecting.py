"""A selector is asked about messages: how long that takes, what it said, how far it has come."""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakSet

from mayfly.engine.core import Core
from mayfly.engine.finding.search import Match, asker, fields_of, in_order
from mayfly.engine.queues import LocalQueue
from mayfly.engine.requester import Requester
from mayfly.properties.selectors import Selector
from mayfly.runtime.compiling import weakly_held
from mayfly.store.units import StoredMessage

#: Characters that a selector may compare for one message under the lock, some 0.1 ms: more, and it
#: is asked while the lock is free. A turn of the lock asks for all messages together so much.
LONG_WORK, TURN_WORK = 100_000, 4_000_000
#: Messages that a selector refuses in one turn of the lock, some 5 ms, and bytes of their bodies,
#: fewer where it looks at them often.
REFUSALS, REFUSED_BYTES = 1_000, 4 * 1024 * 1024
#: More characters than the descriptor has, and what the staging queue shows before a body.
FIXED_SIZE = 512
#: The one name whose value changes while a message lies on its queue and nothing happens to it.
_FLEETING = "Root.MQMD.Expiry"
#: Messages that a scout reads at first; the next page is longer by this factor.
_FIRST_PAGE, _PAGE_GROWTH = 1, 8


def work_on(selector: Selector, row: StoredMessage) -> int:
    """Return how many characters a selector compares at the most to say if it takes a row."""
    size = FIXED_SIZE + len(row.body) + (0 if row.topic is None else len(row.topic))
    work = selector.work * size
    # A body is longer than its header; most need not be looked at.
    return work if work <= LONG_WORK else selector.work_on(fields_of(row, 0))


def is_long(selector: Selector, row: StoredMessage) -> bool:
    """Return True if a selector is to be asked about a row while the lock is free."""
    return work_on(selector, row) > LONG_WORK


class Verdicts:
    """Answers of a selector in one search, and the rows that it is to be asked about.

    A verdict holds for a message as it was: one that was backed out meanwhile is asked anew. A
    verdict does not say that the message is still there: the look under the lock does.
    """

    __slots__ = ("dead", "said", "unasked")

    def __init__(self) -> None:
        #: Key -> backout count, and whether the selector takes it.
        self.said: dict[int, tuple[int, bool]] = {}
        #: Rows at hand to be asked about by :meth:`ask`, in their order.
        self.unasked: list[StoredMessage] = []
        #: Key and side of the expired messages that a search has met in turns of the lock before,
        #: for when it finds a live one (K7).
        self.dead: list[tuple[int, int]] = []

    def of(self, row: StoredMessage) -> bool | None:
        """Return whether the selector takes a row; None if it has not been asked."""
        said = self.said.get(row.k)
        return said[1] if said is not None and said[0] == row.backout_count else None

    def note(self, row: StoredMessage, *, takes: bool) -> None:
        """Note whether the selector takes a row."""
        self.said[row.k] = row.backout_count, takes

    def ask(self, selects: Callable[[StoredMessage], bool]) -> None:
        """Ask about the rows at hand; call it without the lock."""
        unasked, self.unasked = self.unasked, []
        for row in unasked:
            self.note(row, takes=selects(row))

    def clear(self) -> None:
        """Forget all of them: another search begins."""
        self.said.clear()
        self.unasked.clear()
        self.dead.clear()


#: Those of a search without a selector: nothing is ever noted in them.
NO_VERDICTS = Verdicts()


@weakly_held
class SelectorProgress:
    """Where to go on: each message with a lower key that could be seen was refused.

    Messages that became visible since then may be before it; ``lower`` notes that. A pass is a walk
    from the place to the end of the queue; it may have several steps, each under the lock, with
    those of others between them.
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
        "verdicts",
    )

    def __init__(self, core: Core, queue: LocalQueue, match: Match) -> None:
        """Begin at the start of a queue; as long as it lives, it watches what becomes visible."""
        assert match.selector is not None
        self.match = match
        self._core = core
        self._queue = queue
        self._key = queue.low
        self._again_from: int | None = None
        self._is_passing = False
        #: Answers of the selector in this pass, given without the lock.
        self.verdicts = Verdicts()
        # Nobody tells what arrives on the staging queue.
        self._is_kept = _FLEETING not in match.selector.needs and not queue.is_staging
        if queue.watchers is None:
            queue.watchers = WeakSet()
        queue.watchers.add(self)

    @property
    def is_behind(self) -> bool:
        """Whether a pass has gone by what can be seen since."""
        return self._again_from is not None

    def lower(self, key: int) -> None:
        """Note that a message has become visible at a key, others maybe behind it."""
        if key < self._key:
            self._again_from = key if self._again_from is None else min(self._again_from, key)

    def lower_from(self, key: int) -> None:
        """Note that messages may have become visible from a key on."""
        self.lower(key)

    def begin(self, *, anew: bool = False) -> None:
        """Let the next step begin a pass; ``anew`` from the start of the queue."""
        self._is_passing = False
        verdicts = self.verdicts
        if verdicts.said or verdicts.dead or verdicts.unasked:
            verdicts.clear()
        if anew:
            self._again_from = self._queue.low

    def step_from(self, low: int) -> int:
        """Return the key from which the next step of a pass looks, ``low`` at the least."""
        if not self._is_passing:
            if not self._is_kept:
                self._key = self._queue.low
            elif self._again_from is not None:
                self._key = min(self._key, self._again_from)
            self._again_from = None
        return max(low, self._key)

    def reach(self, key: int, *, is_end: bool) -> None:
        """Note how far a step has come, and whether the pass ends there."""
        self._key, self._is_passing = key, not is_end
        if is_end and (self.verdicts.said or self.verdicts.dead):
            self.verdicts.clear()

    def scout(self, requester: Requester) -> None:
        """Go on in a pass up to the next message that the selector takes, or to the end.

        The lock is held only to read messages, not while the selector is asked. Whether the message
        that it takes is still there, the next step sees. Raises MQRC_CONNECTION_BROKEN, and the
        error of a holder that has ended.
        """
        core, verdicts = self._core, self.verdicts
        rows: list[StoredMessage] | None = None
        size = _FIRST_PAGE
        if verdicts.unasked:
            verdicts.ask(self._asker(requester))
        while self._is_passing and rows != []:
            with core.engine_lock:
                # In this order: a queue manager that has been closed has no messages to read.
                selects = self._asker(requester)
                rows = self._page(requester, size)
            for row in rows:
                if selects(row):
                    self._key = row.k
                    verdicts.note(row, takes=True)
                    return
                self._key = row.k + 1
            size *= _PAGE_GROWTH

    def _asker(self, requester: Requester) -> Callable[[StoredMessage], bool]:
        """Return what asks the selector about rows now, for a holder that has not ended."""
        core = self._core
        with core.engine_lock:
            core.check_running()
            requester.check()
            return asker(self.match, core, self._queue, core.now_ms())

    def _page(self, requester: Requester, size: int) -> list[StoredMessage]:
        rows: list[StoredMessage] = []
        max_messages, body_bytes = min(size, REFUSALS), 0
        for row, _side in in_order(self._core, self._queue, self.match, self._key, requester):
            rows.append(row)
            body_bytes += len(row.body)
            if len(rows) >= max_messages or body_bytes >= REFUSED_BYTES:
                break
        return rows


def place_for(
    place: SelectorProgress | None, core: Core, queue: LocalQueue, match: Match
) -> SelectorProgress | None:
    """Return the place of a match with a selector: the given one if it is, else a new one."""
    if match.selector is None or (place is not None and place.match == match):
        return place
    with core.engine_lock:
        return SelectorProgress(core, queue, match)
