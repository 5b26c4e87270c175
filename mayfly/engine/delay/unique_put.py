"""The put of a delayed message that is the only one to wait under its key (D34)."""

from __future__ import annotations

from mayfly.engine.core import Core
from mayfly.engine.delay.schedule import Cancellation, note_audit
from mayfly.engine.delay.schedule_query import found_by_id
from mayfly.engine.queues import Found
from mayfly.engine.transaction import Transaction
from mayfly.engine.unit_of_work import UnitOfWork
from mayfly.lifetime.moments import is_expired
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import unpack_descriptor
from mayfly.mqi.errors import mq_error
from mayfly.verbs.contracts.outcomes import TerminatedBy
from mayfly.verbs.schedule import AuditEntry, Receipt


class UniquePut:
    """One put with a key; its MsgId is reserved from :meth:`claim` until the put is committed.

    So no other put with the key gets between, also from another open unit of work. The engine lock
    is held in all methods but :meth:`release`.
    """

    def __init__(self, core: Core, msg_id: bytes, *, replaces: bool, by: TerminatedBy) -> None:
        """Describe a put with this MsgId by the user and program ``by``.

        ``replaces`` is True if a message that waits is cancelled, False if the put is refused then.
        """
        self._core, self._msg_id = core, msg_id
        self._replaces, self._by = replaces, by
        self._waiting: list[Found] = []
        self._is_reserved = False

    def claim(self, unit_of_work: UnitOfWork | None) -> None:
        """Reserve the MsgId, and find the waiting message that is replaced.

        Raises MQRC_OBJECT_ALREADY_EXISTS when one waits and is not replaced. To replace one raises
        MQRC_OBJECT_IN_USE while another unit of work or a pipeline has it, or has put it and not
        committed, and MQRC_NOT_AUTHORIZED when another user has put it. Nothing is reserved then.
        """
        core = self._core
        found: list[Found] = []

        def is_under_way() -> bool:
            nonlocal found
            found = found_by_id(core, self._msg_id)
            return any(isinstance(core.hidden.get(row.k), Transaction) for _q, row, _s in found)

        core.engine_lock.wait_while(is_under_way)
        now_ms = core.now_ms()
        waiting = [
            each
            for each in found
            if not is_expired(each[1].expire_at_ms, now_ms)
            and not (unit_of_work is not None and unit_of_work.has_taken(each[1].k))
        ]
        is_uncommitted = self._msg_id in core.staging.unique_ids
        if (waiting or is_uncommitted) and not self._replaces:
            text = f"key: message {self._msg_id.hex()} waits under it"
            raise mq_error(rc.MQRC_OBJECT_ALREADY_EXISTS, text)
        if is_uncommitted or any(row.k in core.hidden for _queue, row, _s in waiting):
            text = f"key: message {self._msg_id.hex()} is in an open unit of work, or on its way"
            raise mq_error(rc.MQRC_OBJECT_IN_USE, text)
        for _queue, row, _persistence in waiting:
            sender = unpack_descriptor(row.descriptor).user_identifier
            if sender != (self._by.ended_by or ""):
                text = f"key: message {self._msg_id.hex()} was put by {sender!r}"
                raise mq_error(rc.MQRC_NOT_AUTHORIZED, text)
        if unit_of_work is not None:
            unit_of_work.check_capacity(len(waiting) + 1)
        core.staging.unique_ids.add(self._msg_id)
        self._is_reserved = True
        self._waiting = waiting

    def enter(self, transaction: Transaction | None, unit_of_work: UnitOfWork | None) -> None:
        """Cancel the replaced message where the new one is put: unit of work or transaction."""
        core = self._core
        # With the transaction None the unit of work has the put.
        own = Transaction() if transaction is None else transaction
        for each in self._waiting:
            Cancellation(core, self._by).apply(each, own, unit_of_work)
        if self._waiting:
            entry = AuditEntry(
                core.now_ms(),
                self._by.ended_by or "",
                "replace",
                self._msg_id,
                "by a put with its key",
                Receipt.CANCELLED.value,
                len(self._waiting),
            )
            note_audit(entry, own, unit_of_work)
        if unit_of_work is None:
            own.effects.append(self.release)
        else:
            unit_of_work.on_commit(self.release)
            unit_of_work.on_backout(self, self.release)

    def release(self) -> None:
        """End the reservation of the MsgId; does nothing without one."""
        with self._core.engine_lock:
            if self._is_reserved:
                self._is_reserved = False
                self._core.staging.unique_ids.discard(self._msg_id)

    def finish(self, _error: BaseException | None) -> None:
        """End the reservation at the end of a put that was left to its caller."""
        self.release()
