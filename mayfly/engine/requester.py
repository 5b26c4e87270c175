"""Requester of gets and browses: a session or a handle, with its browse lock."""

from __future__ import annotations

from mayfly.engine import queue_state
from mayfly.engine.core import Core
from mayfly.engine.queues import Found
from mayfly.engine.waiting import Waiter
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.verbs.contracts.outcomes import NOBODY, TerminatedBy


class Requester:
    """A session or a handle that gets messages; its close ends the waits of its gets.

    Its browse lock hides one message from all others (B5). Every method needs the engine lock.
    """

    __slots__ = (
        "_core",
        "_end",
        "_has_waited",
        "is_backed_out",
        "is_ended",
        "locked",
        "terminated_by",
    )

    def __init__(self, core: Core, terminated_by: TerminatedBy = NOBODY) -> None:
        """Begin open, with no message locked.

        ``terminated_by`` is the user and program of its gets, for the ledger of ended messages.
        """
        self._core, self.terminated_by = core, terminated_by
        self.locked: Found | None = None
        #: Whether nothing can be got for it any more.
        self.is_ended = False
        #: Whether what its gets took in a unit of work went back when it was closed.
        self.is_backed_out = False
        self._has_waited = False
        self._end = rc.MQRC_NONE, ""

    def check(self) -> None:
        """Raise MQRC_HCONN_ERROR or MQRC_HOBJ_ERROR once the session or handle is closed."""
        if self.is_ended:
            raise self.error()

    def error(self) -> MQError:
        """Return the error with which its gets fail after its close.

        Call it only after the close.
        """
        return mq_error(*self._end)

    def wait(self, queue_number: int, waiter: Waiter) -> None:
        """Add a waiter to the waits of a queue, without blocking.

        ``queue_number`` is that of the queue, or the number ``DEFINITIONS`` for changes of
        definitions. The close of this requester ends the wait.
        """
        self._has_waited = True
        self._core.waits.add(queue_number, waiter)

    def end(self, reason: int, detail: str, *, is_backed_out: bool = False) -> None:
        """Refuse further gets, and end waiting ones with this reason code.

        ``detail`` is the text of the error. A second call does nothing. ``is_backed_out`` says that
        messages got in a unit of work have returned to their queues.
        """
        if self.is_ended:
            return
        self._end, self.is_backed_out = (reason, detail), is_backed_out
        self.is_ended = True
        if self._has_waited:
            # Most never wait, and close without a search of all waits.
            self._core.waits.fail_owner(self, mq_error(reason, detail))

    def resume(self) -> None:
        """Undo :meth:`end`, because the close was refused."""
        self.is_ended = False

    def lock(self, found: Found) -> None:
        """Hide a message from all others by the browse lock.

        The caller has released the last one.
        """
        queue_state.lock_for_browse(found, self)
        self.locked = found

    def forget_lock(self, key: int) -> None:
        """Remove the browse lock from the message with this key, which leaves its queue at once.

        Does nothing if another message, or none, is locked.
        """
        if self.locked is not None and self.locked[1].k == key:
            queue_state.unlock(self.locked, self)
            self.locked = None

    def release_lock(self) -> None:
        """Make the locked message visible and offer it to waiting gets.

        Does nothing without a lock. The caller calls ``Committer.run_deferred`` afterwards.
        """
        if self.locked is not None:
            queue, row, persistence = self.locked
            self.forget_lock(row.k)
            queue_state.note_visible(queue, row.k, persistence)
            self._core.waits.offer(queue.number)
