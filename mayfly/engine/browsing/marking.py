"""The marks of one browsing handle: made, ended, and heeded by its browses (B7)."""

from __future__ import annotations

from mayfly.engine.browsing.marks import Marks, Unmarked
from mayfly.engine.core import Core
from mayfly.engine.get import GetRequest
from mayfly.engine.queues import Found, LocalQueue
from mayfly.engine.requester import Requester
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQMMBI_UNLIMITED
from mayfly.mqi.errors import mq_error
from mayfly.store.units import StoredMessage


def marks_of(queue: LocalQueue) -> Marks:
    """Return the marks on a queue; of a shared one all queue managers of its group see the same."""
    assert isinstance(queue.home, Core)
    return queue.home.marks


class HandleMarks:
    """The marks of one handle on its queue; all but :meth:`narrowed` is under the lock."""

    def __init__(
        self, core: Core, queue: LocalQueue, requester: Requester, *, co_operates: bool
    ) -> None:
        """Begin with nothing marked; ``co_operates`` when it was opened with MQOO_CO_OP."""
        self._core = core
        self._queue = queue
        self._marks = marks_of(queue)
        self._holder = requester
        self._co_operates = co_operates
        #: Made for the first browse of unmarked messages.
        self._unmarked: Unmarked | None = None

    def narrowed(self, request: GetRequest) -> GetRequest:
        """Return a request that passes over what is marked for this handle or its set."""
        with self._core.engine_lock:
            unmarked = self._not_marked()
        return request._replace(match=request.match._replace(unmarked=unmarked))

    def change(self, found: Found, options: int) -> None:
        """Mark and unmark a message that is browsed now, by MQGMO options."""
        core, marks, requester = self._core, self._marks, self._holder
        if options & c.MQGMO_MARK_BROWSE_HANDLE:
            marks.mark(found, requester)
        if options & c.MQGMO_MARK_BROWSE_CO_OP:
            interval_ms = core.registry.queue_manager.markint
            is_unlimited = interval_ms == MQMMBI_UNLIMITED
            until_ms = None if is_unlimited else core.now_ms() + interval_ms
            marks.mark_for_set(found, requester, until_ms)
            # Somebody may wait for its lapse already.
            core.must_wake = True
        if options & c.MQGMO_UNMARK_BROWSE_HANDLE:
            marks.unmark(found[1].k, requester)
        if options & c.MQGMO_UNMARK_BROWSE_CO_OP:
            marks.unmark_for_set(found[1].k)

    def end_lapsed(self) -> None:
        """End the marks of all sets whose time is over, before anything is asked about them."""
        if self._marks.marked:
            self._marks.end_lapsed(self._core.now_ms(), self._core.waits.offer)

    def check_unmarked(self, row: StoredMessage) -> None:
        """Raise MQRC_MSG_MARKED_BROWSE_CO_OP for a message that is asked for as unmarked."""
        if self._not_marked().hides(row):
            raise mq_error(rc.MQRC_MSG_MARKED_BROWSE_CO_OP, "the message is marked")

    def check_own(self, key: int) -> None:
        """Raise MQRC_MSG_MARKED_BROWSE_CO_OP when another handle of its set has the mark."""
        if self._co_operates:
            self.end_lapsed()
            if self._marks.is_of_another(key, self._holder):
                raise mq_error(
                    rc.MQRC_MSG_MARKED_BROWSE_CO_OP, "another handle of the set has marked it"
                )

    def _not_marked(self) -> Unmarked:
        if self._unmarked is None:
            self._unmarked = Unmarked(
                self._marks,
                self._queue,
                self._holder,
                self._core.now_ms,
                co_operates=self._co_operates,
            )
        return self._unmarked
