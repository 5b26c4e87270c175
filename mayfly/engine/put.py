"""MQPUT: put a message on a queue, or, with a delivery delay, on the staging queue.

A delayed message is the only one under its key (D34), and may be warned about (D33).
"""

from __future__ import annotations

import logging
from functools import lru_cache
from typing import Any, Final, NamedTuple

from mayfly.engine import queue_state
from mayfly.engine.attributes import QALIAS, QREMOTE
from mayfly.engine.callbacks import Completion
from mayfly.engine.core import Core
from mayfly.engine.delay.schedule import Cancellation, note_audit
from mayfly.engine.delay.staging import (
    Delayed,
    row_of_staged_body,
    staged_row,
    staging_path,
)
from mayfly.engine.delay.staging_queries import found_by_id
from mayfly.engine.delivery import (
    check_open,
    new_id,
    new_row,
    refusal,
    size_on,
)
from mayfly.engine.descriptors import Context, Prepared, check_header, prepare
from mayfly.engine.disposal import send_report
from mayfly.engine.events.messages import report_failure
from mayfly.engine.groups.place import is_grouped
from mayfly.engine.objects.registry import ResolvedQueue
from mayfly.engine.queues import Found, LocalQueue
from mayfly.engine.remote_queues import check_direct_put, reply_address
from mayfly.engine.state import ensure_running, now_ms_of
from mayfly.engine.transaction import Transaction
from mayfly.engine.unit_of_work import UnitOfWork
from mayfly.lifetime.moments import is_expired, is_unsafe_delay
from mayfly.lifetime.reports import Cause, Original, is_owed
from mayfly.lifetime.window import DELAY_COMMAND_LEVEL, Window, window_at_put
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQPMO_NONE, MQRO_COA
from mayfly.mqi.delay_header import HEADER_BYTES
from mayfly.mqi.descriptor import Descriptor, unpack_descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.mqi.properties import FORMAT as RFH2_FORMAT
from mayfly.store.units import StoredMessage
from mayfly.verbs.checks import plain_descriptor
from mayfly.verbs.contracts.outcomes import TerminatedBy
from mayfly.verbs.facts import Status
from mayfly.verbs.messages import PutResult
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
        """End the reservation of the key at the end of a put, successful or not."""
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


_OBJECT_TYPES: Final = {QALIAS: c.MQOT_ALIAS_Q, QREMOTE: c.MQOT_REMOTE_Q}


class PutRequest(NamedTuple):
    """The options of one put: descriptor, ids, time to live and delay in ms, context.

    Ids are as stored (``stored_id``): 24 bytes, empty for none. ``life_ms`` is the time to live in
    ms; with None the message never expires. ``context_option`` is an MQPMO_*_CONTEXT option.
    ``capped_by`` names the CAPEXPRY limit that shortened the expiry on an earlier queue.
    """

    descriptor: Descriptor
    msg_id: bytes = b""
    correl_id: bytes = b""
    # int, and None for a life without end; a program may give anything: window_at_put checks it.
    life_ms: Any = None
    delay_ms: Any = 0
    context_option: int = MQPMO_NONE
    capped_by: str | None = None


@lru_cache(maxsize=1024)
def plain_request(
    priority: int | None,
    persistent: bool | None,
    report: int,
    reply_to: str,
    msg_type: int,
    format_name: str,
) -> PutRequest:
    """Return the request of a put without ids, expiry or delay; cached.

    ``priority`` and ``persistent`` None are the defaults of the queue. Raises the reason code of a
    wrong value.
    """
    return PutRequest(
        plain_descriptor(priority, persistent, report, reply_to, msg_type, format_name)
    )


def put(
    core: Core,
    path: ResolvedQueue,
    body: bytes,
    request: PutRequest,
    *,
    context: Context,
    unit_of_work: UnitOfWork | None,
    completion: Completion | None = None,
    unique: UniquePut | None = None,
) -> PutResult:
    """Put a message on the queue of a resolved name, or on the staging queue if it is delayed.

    ``context`` is the user and program that put. In a unit of work the message is visible at the
    commit, else when this returns. With a ``completion``, a put that would wait for the disk leaves
    its transaction there for the caller to run. ``unique`` is the claim of a delayed message to be
    the only one under its key (D34).

    Nothing is put on an error: a wrong descriptor (P1, P12), MQRC_PUT_INHIBITED, MQRC_Q_FULL,
    MQRC_MSG_TOO_BIG_FOR_Q and MQRC_MSG_TOO_BIG_FOR_Q_MGR (P8), MQRC_EXPIRY_ERROR (E2, E3, D7), and
    for a delay MQRC_FUNCTION_NOT_SUPPORTED (D5), MQRC_OPTIONS_ERROR (D6, D9) or the refusal of the
    staging queue (D14, D19, D31).
    """
    prepared = prepared_for(core, path, body, request, context)
    try:
        with core.engine_lock:
            ensure_running(core)
            if unique is not None:
                unique.claim(unit_of_work)
            # The queue may have been deleted since its name was resolved.
            path = path if path.version == core.registry.version else core.registry.refreshed(path)
            window = window_at_put(
                now_ms_of(core),
                request.life_ms,
                request.delay_ms,
                path.cap_ms,
                from_release=path.ttl_from_release,
                longest_ms=core.settings.longest_life_ms,
                capped_by=path.capped_by,
            )
            if request.capped_by is not None and window.capped_by is None:
                window = window._replace(capped_by=request.capped_by)
            queue, row, persistent = new_put(core, path, prepared, window, request, body)
            if unit_of_work is not None:
                unit_of_work.put(queue, row, persistent=persistent)
                transaction = None
            else:
                transaction = Transaction()
                queue_state.arrive(core, transaction, queue, row, persistent=persistent)
            if unique is not None:
                unique.enter(transaction, unit_of_work)
            if (
                prepared.descriptor.report & MQRO_COA
                and path.remote is None
                and not queue.is_staging
            ):
                add_coa_report(core, row, prepared.descriptor, transaction, unit_of_work)
            if transaction is not None and core.committer.run_at_once(transaction):
                transaction = None
    except MQError as error:
        report_failure(core, context, error, path.name)
        raise
    if transaction is None:
        core.committer.run_deferred()
    elif completion is None:
        core.committer.run(transaction)
    else:
        completion.transaction = transaction
    return result_of(core, path, row, request, prepared, window)


def put_unique(
    core: Core,
    path: ResolvedQueue,
    body: bytes,
    request: PutRequest,
    *,
    context: Context,
    unit_of_work: UnitOfWork | None,
    replaces: bool,
    completion: Completion | None = None,
) -> PutResult:
    """Put a delayed message that is the only one to wait under its MsgId, made of a key (D34).

    With ``replaces`` the one that waits is cancelled in the same unit of work or transaction, else
    the put is refused. Parameters and errors are those of :func:`put`, and of ``UniquePut.claim``.
    Raises MQRC_OPTIONS_ERROR without a delay.
    """
    if not request.delay_ms:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, "key: the message has no delay")
    by = TerminatedBy(ended_by=context.user_identifier, ended_program=context.put_appl_name)
    unique = UniquePut(core, request.msg_id, replaces=replaces, by=by)
    try:
        result = put(
            core,
            path,
            body,
            request,
            context=context,
            unit_of_work=unit_of_work,
            completion=completion,
            unique=unique,
        )
    except BaseException:
        unique.release()
        raise
    if completion is not None and completion.transaction is not None:
        completion.finish = unique.finish
    return result


def result_of(
    core: Core,
    path: ResolvedQueue,
    row: StoredMessage,
    request: PutRequest,
    prepared: Prepared,
    window: Window,
) -> PutResult:
    """Return the result of a put: MsgId, CorrelId, descriptor, put and expiry times, queue.

    ``prepared`` is the checked descriptor, ``window`` put time, delivery time and deadline. A
    delayed message and one for another queue manager have another MsgId in the store than the one
    returned here.
    """
    here, msg_id = path.queue, row.msg_id
    if path.remote is None:
        queue, manager = here.definition.name, core.name
        if here.is_staging and row.shown_id:
            msg_id = row.shown_id
    else:
        queue, manager = path.remote
        if not request.delay_ms:
            # Only on the transmission queue it has a separate MsgId.
            msg_id = row.correl_id
    correl_id, warning = request.correl_id, prepared.warning
    # Made without a call of Python, as every put comes here.
    values = msg_id, correl_id, prepared.descriptor, window, warning, queue, manager
    return tuple.__new__(PutResult, values)


def prepared_for(
    core: Core, path: ResolvedQueue, body: bytes, request: PutRequest, context: Context
) -> Prepared:
    """Return the descriptor of a put, checked and completed from queue and context.

    Checks the data too if the Format announces a header, or the queue is a transmission queue.
    Raises the reason code of the first error.
    """
    asked, known = request.descriptor, path.prepared
    is_plain = not request.context_option
    if known is not None and known[0] is asked and known[1] is context and is_plain:
        return known[2]
    if asked.reply_to_q and not asked.reply_to_q_mgr:
        asked = _with_reply_address(core, asked)
    defaults = path.default_priority, path.default_persistence
    if not path.transmits:
        prepared = prepare(asked, *defaults, context, request.context_option)
        if is_plain and asked is request.descriptor and not prepared.checks_header:
            path.prepared = asked, context, prepared
    else:
        prepared = prepare(asked, *defaults, context, request.context_option, transmits=True)
        if path.remote is None:
            check_direct_put(core.settings, prepared.descriptor, body, request.life_ms)
    if prepared.checks_header:
        check_header(prepared.descriptor, body)
    return prepared


def new_put(
    core: Core,
    path: ResolvedQueue,
    prepared: Prepared,
    window: Window,
    request: PutRequest,
    body: bytes,
) -> tuple[LocalQueue, StoredMessage, bool]:
    """Return the queue where a message goes now, its row, and whether it is persistent.

    ``prepared`` is the checked descriptor, ``window`` put time, delivery time and deadline. Nothing
    is stored or counted yet. Raises the errors of :func:`put`. Needs the engine lock.
    """
    persistent = prepared.persistent
    queue = path.queue
    if queue.is_staging:
        return _on_staging(core, path, prepared, window, request, body)
    size_bytes = len(body)
    if path.remote is not None:
        size_bytes = size_on(path, prepared.descriptor, size_bytes)
    # As check_capacity does, without a call: every put comes here.
    if (
        path.put_inhibited
        or size_bytes > path.largest_bytes
        or queue.depth >= path.max_depth
        or (persistent and path.is_temporary)
    ):
        # No variable holds the error: its traceback would keep the message until the garbage
        # collector runs.
        if request.delay_ms:
            raise _refused_by_target(core, refusal(path, size_bytes), len(body))
        raise refusal(path, size_bytes)
    if not request.delay_ms:
        ids = request.msg_id, request.correl_id, None
        return queue, new_row(core, path, (prepared, window, ids, body)), persistent
    check_delay(core, prepared.descriptor, body)
    if path.fixes_binding:
        # D6.
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"delay_ms: {path.name} is clustered, not NOTFIXED")
    staging = staging_path(core, len(body))
    check_delay_is_safe(core, path, prepared, window)
    delayed = Delayed(prepared, window, request.msg_id, request.correl_id, body)
    return staging.queue, staged_row(core, path, delayed), persistent


def _on_staging(
    core: Core,
    path: ResolvedQueue,
    prepared: Prepared,
    window: Window,
    request: PutRequest,
    body: bytes,
) -> tuple[LocalQueue, StoredMessage, bool]:
    """Return staging queue, row and persistence for a message put on the staging queue by name.

    Its data begin with a delay header. Raises MQRC_OPTIONS_ERROR for a ``delay_ms``, and the errors
    of :func:`put`.
    """
    if request.delay_ms:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"delay_ms {request.delay_ms}: {path.name} has none")
    check_open(path, len(body))
    staging = staging_path(core, max(len(body) - HEADER_BYTES, 0))
    delayed = Delayed(prepared, window, request.msg_id, request.correl_id, body)
    row = row_of_staged_body(core, delayed, new_id(core))
    if row.target is not None:
        _check_ungrouped(unpack_descriptor(row.descriptor), row.body)
    return staging.queue, row, prepared.persistent


def _with_reply_address(core: Core, asked: Descriptor) -> Descriptor:
    """Return the descriptor with ReplyToQMgr from the remote queue definition that ReplyToQ names.

    Without such a definition it is returned unchanged.
    """
    address = reply_address(core.registry.find, asked.reply_to_q)
    if address is None:
        return asked
    return asked._replace(reply_to_q=address[0], reply_to_q_mgr=address[1])


def _refused_by_target(core: Core, refused: MQError, body_bytes: int) -> MQError:
    """Return the error for a delayed message that its target queue refuses now (D19).

    The reason code is the target's; the text adds the reason if the staging queue would refuse the
    message too (D14).
    """
    try:
        staging_path(core, body_bytes)
    except MQError as other:
        text = f"{refused.detail}; the staging queue refuses it, too: {other}"
        return mq_error(refused.reason, text)
    return refused


def check_delay(core: Core, descriptor: Descriptor, body: bytes) -> None:
    """Raise the error for a message that cannot be delayed; nothing if it can.

    MQRC_FUNCTION_NOT_SUPPORTED below the command level of delivery delay (D5), MQRC_OPTIONS_ERROR
    for a message in a group (D9).
    """
    if core.command_level < DELAY_COMMAND_LEVEL:
        raise mq_error(
            rc.MQRC_FUNCTION_NOT_SUPPORTED,
            f"delay_ms: queue manager {core.name} has command level {core.command_level}",
        )
    # No other message is in a group.
    if descriptor.msg_flags or descriptor.format == RFH2_FORMAT:
        _check_ungrouped(descriptor, body)


def _check_ungrouped(descriptor: Descriptor, body: bytes) -> None:
    """Raise MQRC_OPTIONS_ERROR for a message in a group, which cannot be delayed."""
    if is_grouped(descriptor, body):
        raise mq_error(rc.MQRC_OPTIONS_ERROR, "delay_ms: a message in a group cannot be delayed")


def add_coa_report(
    core: Core,
    row: StoredMessage,
    descriptor: Descriptor,
    transaction: Transaction | None,
    unit_of_work: UnitOfWork | None,
) -> None:
    """Add the COA report that a message asks for to the putter's unit of work or transaction.

    Does nothing if the message asks for none. Needs the engine lock.
    """
    if not is_owed(Cause.COA, descriptor):
        return
    left_ms = None if row.expire_at_ms is None else row.expire_at_ms - row.put_ms
    original = Original(descriptor, row.msg_id, row.correl_id, row.body, left_ms)
    report = Transaction() if transaction is None else transaction
    send_report(core, report, Cause.COA, original)
    if unit_of_work is not None:
        unit_of_work.adopt(report)


# MQSTAT: the outcome of puts with MQPMO_ASYNC_RESPONSE, whose failures are not raised (P13)


class AsyncPuts:
    """Counts the asynchronous puts of one session and keeps their first error, for MQSTAT (P13)."""

    def __init__(self, core: Core) -> None:
        """Begin with no put counted."""
        self._core = core
        #: Without those that went well, which are most.
        self._status = Status()
        self._success_count = 0

    def take(self) -> Status:
        """Return the counts and first error, and reset them, as MQSTAT does."""
        status = self._status._replace(success_count=self._success_count)
        self._status, self._success_count = Status(), 0
        return status

    def done(self, path: ResolvedQueue, result: PutResult) -> None:
        """Count a successful put; keep its warning if it has one and nothing worse came before."""
        if not result.warning:
            self._success_count += 1
            return
        self._status = self._status._replace(warning_count=self._status.warning_count + 1)
        self._note(path, c.MQCC_WARNING, result.warning)

    def failed(self, path: ResolvedQueue, error: MQError) -> None:
        """Count a put that failed, and keep its error if it is the first."""
        self._status = self._status._replace(failure_count=self._status.failure_count + 1)
        self._note(path, c.MQCC_FAILED, error.reason)

    def _note(self, path: ResolvedQueue, comp: int, reason: int) -> None:
        """Keep completion code, reason code and object, if ``comp`` is worse than the one kept."""
        if comp <= self._status.comp:
            return
        definition = self._core.registry.find(path.name)
        kind = "" if definition is None else definition.kind
        queue, manager = path.remote or (path.queue.name, self._core.name)
        self._status = self._status._replace(
            comp=comp,
            reason=reason,
            object_type=_OBJECT_TYPES.get(kind, c.MQOT_LOCAL_Q),
            object_name=path.name,
            queue=queue,
            manager=manager,
        )


def is_asynchronous(path: ResolvedQueue, request: PutRequest, options: int) -> bool:
    """Return True if a put with MQPMO_ASYNC_RESPONSE may report its outcome later.

    Such a put is in a unit of work or of a non-persistent message. Returns False for all others.
    """
    persistence = request.descriptor.persistence
    if persistence == c.MQPER_PERSISTENCE_AS_Q_DEF:
        persistence = path.default_persistence
    return bool(options & c.MQPMO_SYNCPOINT) or persistence != c.MQPER_PERSISTENT
