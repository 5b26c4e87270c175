"""Puts of delayed messages: the only one under its key (D34), and warnings (D33)."""

from __future__ import annotations

import logging

from mayfly.engine.core import Core
from mayfly.engine.delay.schedule import Cancellation, note_audit
from mayfly.engine.delay.schedule_query import found_by_id
from mayfly.engine.descriptors import Prepared
from mayfly.engine.objects.registry import ResolvedQueue
from mayfly.engine.queues import Found
from mayfly.engine.transaction import Transaction
from mayfly.engine.unit_of_work import UnitOfWork
from mayfly.lifetime.moments import is_expired
from mayfly.lifetime.time_limits import is_unsafe_delay
from mayfly.lifetime.window import Window
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


# Warnings at the put of a delayed message that may never reach its queue (D33)
#
# A message that is not persistent is lost when the queue manager restarts before it is due. One
# that finds its queue full when it is due goes to the dead-letter queue.


_LOG = logging.getLogger("mayfly.delay")


def check_delay_is_safe(
    core: Core, path: ResolvedQueue, prepared: Prepared, window: Window
) -> None:
    """Warn of a delayed put that may be lost or refused later; the engine lock is held.

    The log has one line a minute for each queue and program, with the number of messages. A queue
    manager in memory alone warns of a full queue only. Raises MQRC_OPTIONS_ERROR for a delay above
    one minute of a message that is not persistent where ``delay.volatile_check`` is ``refuse``.
    """
    assert core.engine_lock.is_held()
    delay_ms, check = window.deliver_at_ms - window.put_ms, core.settings.volatile_delay_check
    if (
        check != "off"
        and core.store.folder is not None
        and is_unsafe_delay(delay_ms, persistent=prepared.persistent)
    ):
        text = f"a restart would lose a message that is delayed for {path.name}: not persistent"
        if check == "refuse":
            raise mq_error(rc.MQRC_OPTIONS_ERROR, f"delay_ms {delay_ms}: {text}")
        program = prepared.descriptor.put_appl_name
        _warn(core, ("volatile", path.name, program), f"{text}, put by {program or 'a program'}")
    queue = path.queue
    if path.remote is None and queue.owner is core and queue.staged_for >= path.max_depth:
        text = f"more messages are delayed for {path.name} than MAXDEPTH({path.max_depth})"
        _warn(core, ("crowded", path.name), text)


def _warn(core: Core, kind: tuple[str, ...], text: str) -> None:
    """Log a warning; ``kind`` is any value that equal warnings share."""
    core.alike_warnings.note(_LOG, kind, core.now_ms(), text)
