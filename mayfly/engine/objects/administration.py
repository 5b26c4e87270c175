"""Defines, alters, clears and deletes queues, including dynamic ones, and stores definitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from functools import cache

from mayfly.engine import queue_state
from mayfly.engine.attributes import (
    LARGEST,
    LONGEST_MESSAGE_BYTES,
    QLOCAL,
    QMGR,
    QMODEL,
    QUEUE_KINDS,
    TABLES,
    Definition,
    QueueDefinition,
    attributes_of,
)
from mayfly.engine.core import Core
from mayfly.engine.delay.redelivery import redeliver_all
from mayfly.engine.finding.search import ANY, in_order
from mayfly.engine.kept_attributes import kept_attributes_of
from mayfly.engine.objects.registry import DEAD_LETTER_QUEUE, DEFAULT_OBJECTS
from mayfly.engine.queues import LocalQueue
from mayfly.engine.transaction import Transaction
from mayfly.engine.triggering.triggering import triggering_of
from mayfly.lifetime.life import Event
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQQSGD_SHARED, MQTC_ON, MQUS_TRANSMISSION
from mayfly.mqi.delay_header import STAGING_QUEUE
from mayfly.mqi.errors import MQError, StoreDamaged, mq_error
from mayfly.store.store import Store
from mayfly.verbs.checks import check_name
from mayfly.verbs.contracts.outcomes import NOBODY, TerminatedBy
from mayfly.verbs.facts import Value

_SAVE = "INSERT OR REPLACE INTO object VALUES (?, ?, ?, ?)"
_CLEAR_BATCH = 1_000
#: The unique part that replaces the asterisk needs 16 of the 48 characters.
_LAST_PLACE_OF_ASTERISK = 33
_DELETES = c.MQCO_DELETE | c.MQCO_DELETE_PURGE


def define(
    core: Core,
    kind: str,
    name: str,
    attributes: Mapping[str, Value],
    *,
    replace: bool = False,
) -> None:
    """Define a queue, durably on return; attributes that are left out have their defaults.

    With ``replace`` an existing queue of the same kind keeps its messages and gets these
    attributes, and the defaults for those left out. QSGDISP(SHARED) defines it in the queue-sharing
    group. Raises MQRC_OBJECT_ALREADY_EXISTS, MQRC_OBJECT_NAME_ERROR, and
    MQRC_OPTION_NOT_VALID_FOR_TYPE for a shared queue without a group, with triggering, or as a
    transmission queue.
    """
    check_name(name)
    core.check_running()
    assert kind in QUEUE_KINDS
    definition = QueueDefinition(kind, name).altered(attributes)
    core = _owner_for(core, definition)
    with core.definitions_lock:
        existing = core.registry.find(name)
        if existing is None or _owner_of(core, existing) is not core:
            enter_queue(core, definition)
        elif replace and existing.kind == kind:
            _change(core, existing, definition.every_attribute)
        else:
            raise mq_error(rc.MQRC_OBJECT_ALREADY_EXISTS, f"{existing.kind} {name} exists")


def alter(core: Core, kind: str, name: str, attributes: Mapping[str, Value]) -> None:
    """Change attributes of a queue, or for kind QMGR of the queue manager (``name`` is ignored).

    Attributes that are left out keep their values; durable on return. A change affects later calls
    only: messages on the queue keep their expiry time and place. Raises MQRC_UNKNOWN_OBJECT_NAME,
    MQRC_OBJECT_TYPE_ERROR, and MQRC_OPTION_NOT_VALID_FOR_TYPE when QSGDISP would change.
    """
    core.check_running()
    is_manager = kind == QMGR
    core = core if is_manager else _owner_of(core, core.registry.find(name))
    with core.definitions_lock:
        if is_manager:
            _change(core, core.registry.queue_manager, attributes)
            return
        definition = _find(core, kind, name)
        changed = definition.altered(attributes)
        if changed.qsgdisp != definition.qsgdisp:
            raise mq_error(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE, f"QSGDISP of {name} does not change")
        _check_sharing(changed)
        _change(core, definition, attributes)


def delete(core: Core, kind: str, name: str, *, purge: bool = False) -> None:
    """Delete a queue, durably on return; a local queue must be closed by all programs.

    A local queue must also be empty, unless ``purge`` deletes its messages. Raises
    MQRC_UNKNOWN_OBJECT_NAME, MQRC_OBJECT_TYPE_ERROR, MQRC_Q_NOT_EMPTY, and MQRC_OBJECT_IN_USE for
    an open queue or uncommitted work.
    """
    core.check_running()
    core = _owner_of(core, core.registry.find(name))
    with core.definitions_lock:
        definition = _find(core, kind, name)
        if kind == QLOCAL:
            delete_queue(core, core.registry.queue(name), purge=purge)
        else:
            _forget(core, definition, None)


def clear(core: Core, name: str) -> int:
    """Remove all messages of a local queue, without expiration reports; return their number.

    They are removed in batches, each a transaction that is complete before the next. Raises
    MQRC_UNKNOWN_OBJECT_NAME, MQRC_OBJECT_TYPE_ERROR, and MQRC_OBJECT_IN_USE when the queue is open
    or has uncommitted work.
    """
    core = _owner_of(core, core.registry.find(name))
    with core.engine_lock:
        _find(core, QLOCAL, name)
        queue = core.registry.queue(name)
        _check_unused(queue, 0)
    return _clear(core, queue, NOBODY)


def delete_queue(
    core: Core,
    queue: LocalQueue,
    *,
    purge: bool,
    own_handles: int = 0,
    terminated_by: TerminatedBy = NOBODY,
) -> None:
    """Delete a local queue that at most ``own_handles`` handles have open.

    With ``purge`` its messages are deleted first; ``terminated_by`` names the program in their
    records. Raises MQRC_OBJECT_IN_USE for more handles or uncommitted work, and MQRC_Q_NOT_EMPTY
    for messages without ``purge``.
    """
    with core.engine_lock:
        _check_unused(queue, own_handles)
        if not purge:
            _check_empty(queue)
    _clear(core, queue, terminated_by)
    core.store.write_balances()
    _forget(core, queue.definition, queue, own_handles=own_handles)


def enter_queue(core: Core, definition: QueueDefinition) -> None:
    """Store the definition of a new queue, then add the queue in memory.

    Call it without the engine lock; the lock of definitions is held.
    """
    number = core.registry.number_for(definition.name) if definition.kind == QLOCAL else 0
    save(core, definition, number)
    with core.engine_lock:
        _add_queue(core, definition, number)
    core.store.write_balances()


def _add_queue(core: Core, definition: QueueDefinition, number: int) -> None:
    """Add a queue in memory, with its triggering and its message counters."""
    queue = core.registry.add(definition, number)
    if queue is not None:
        triggering_of(core).set_trigger(queue)
        core.performance.watch(queue)
        core.staging.enabled_count += queue.is_staging
        core.store.ledger_writer.totals.open_queue(number, definition.name)
        core.store.ledger_writer.totals.open_queue(-number, definition.name)


def set_up(core: Core, platform: str, opening: Transaction) -> None:
    """Define the queues that every queue manager of this platform has, as ``enter_at_opening``."""
    enter_at_opening(core, _system_objects(platform), opening)


def enter_at_opening(
    core: Core, prototypes: Sequence[QueueDefinition], opening: Transaction
) -> None:
    """Add a copy of each prototype in memory while the queue manager opens; ``opening`` stores it.

    Queues that are defined already stay as they are. Here memory changes before the disk: no
    program can reach the queue manager yet, and it does not open when the transaction fails.
    """
    for prototype in prototypes:
        if core.registry.find(prototype.name) is not None:
            continue
        is_local = prototype.kind == QLOCAL
        with core.engine_lock:
            number = core.registry.number_for(prototype.name) if is_local else 0
            _add_queue(core, copy(prototype), number)
        opening.unit.wants_balances |= is_local
        opening.unit.statements.append(saving_prototype(prototype, number))


@cache
def _system_objects(platform: str) -> tuple[QueueDefinition, ...]:
    """Return the prototypes of a platform's system queues; on z/OS none for staging (D14)."""
    objects = [QueueDefinition(kind, name) for kind, name in DEFAULT_OBJECTS.items()]
    objects.append(QueueDefinition(QLOCAL, DEAD_LETTER_QUEUE, maxdepth=LARGEST))
    if platform != "zos":
        staging = QueueDefinition(
            QLOCAL,
            STAGING_QUEUE,
            maxdepth=LARGEST,
            maxmsgl=LONGEST_MESSAGE_BYTES,
            msgdlvsq=c.MQMDS_FIFO,
        )
        objects.append(staging)
    return tuple(objects)


def _owner_of(core: Core, definition: QueueDefinition | None) -> Core:
    """Return the engine that stores a definition: the queue-sharing group, or ``core``."""
    is_shared = definition is not None and definition.qsgdisp == MQQSGD_SHARED
    return core if core.group is None or not is_shared else core.group


def _owner_for(core: Core, definition: QueueDefinition) -> Core:
    """Return the engine that will store a new definition.

    It is the queue-sharing group for a shared queue, else ``core``. Raises
    MQRC_OPTION_NOT_VALID_FOR_TYPE for a shared queue without a group, or of a kind that cannot be
    shared.
    """
    if definition.qsgdisp != MQQSGD_SHARED:
        return core
    if core.group is None:
        raise mq_error(
            rc.MQRC_OPTION_NOT_VALID_FOR_TYPE,
            f"QSGDISP(SHARED): {core.name} is in no queue-sharing group",
        )
    _check_sharing(definition)
    return core.group


def _check_sharing(definition: QueueDefinition) -> None:
    """Raise MQRC_OPTION_NOT_VALID_FOR_TYPE for a shared queue with TRIGGER or USAGE(XMITQ)."""
    if definition.qsgdisp != MQQSGD_SHARED:
        return
    for keyword, is_refused in (
        ("TRIGGER", definition.trigger == MQTC_ON),
        ("USAGE", definition.usage == MQUS_TRANSMISSION),
    ):
        if is_refused:
            raise mq_error(
                rc.MQRC_OPTION_NOT_VALID_FOR_TYPE, f"{keyword}: {definition.name} is a shared queue"
            )


def _find(core: Core, kind: str, name: str) -> QueueDefinition:
    """Return the definition of a queue of this kind.

    Raises MQRC_UNKNOWN_OBJECT_NAME when no queue has this name, MQRC_OBJECT_TYPE_ERROR when it is
    of another kind.
    """
    definition = core.registry.find(name)
    if definition is None:
        raise mq_error(rc.MQRC_UNKNOWN_OBJECT_NAME, f"{kind} {name} is not defined")
    if definition.kind != kind:
        raise mq_error(rc.MQRC_OBJECT_TYPE_ERROR, f"{name} is a {definition.kind}, not a {kind}")
    return definition


def _check_unused(queue: LocalQueue, own_handles: int) -> None:
    """Raise MQRC_OBJECT_IN_USE for uncommitted work, or more than ``own_handles`` handles."""
    if queue.input_count + queue.output_count > own_handles or queue.has_uncommitted_work:
        raise mq_error(rc.MQRC_OBJECT_IN_USE, f"{queue.name} is open or has uncommitted work")


def _check_empty(queue: LocalQueue) -> None:
    """Raise MQRC_Q_NOT_EMPTY for a queue with messages, also if their redelivery is delayed."""
    count = queue.depth + queue.awaiting_redelivery
    if count:
        raise mq_error(rc.MQRC_Q_NOT_EMPTY, f"{queue.name} holds {count} messages")


def _change(core: Core, definition: Definition, attributes: Mapping[str, Value]) -> None:
    """Store changed attributes of a queue or the queue manager, then apply them in memory.

    Waiting gets are tried again. The lock of definitions is held.
    """
    queue = core.registry.by_name(definition.name) if definition.kind == QLOCAL else None
    with triggering_of(core).held(queue):
        changed = definition.altered(attributes)
        # A command that names TRIGGER decides: no restart changes that.
        changed.is_switched_off = definition.is_switched_off and "TRIGGER" not in attributes
        save(core, changed, 0 if queue is None else queue.number)
        with core.engine_lock:
            core.staging.enabled_count += _is_enabled_again(definition, changed)
            before = definition.attributes
            definition.copy_from(changed)
            definition.is_switched_off = changed.is_switched_off
            core.registry.changed()
            core.must_wake = True
            triggering_of(core).changed(definition, before)
            core.performance.changed(definition, before)
            # GET(DISABLED) ends waits (G4); the waiting get finds out by trying.
            core.waits.offer_all()
    core.committer.run_deferred()


def _is_enabled_again(before: Definition, after: Definition) -> bool:
    """Return True if the staging queue was GET- or PUT-inhibited before and is not now (D28)."""
    if not isinstance(before, QueueDefinition) or not isinstance(after, QueueDefinition):
        return False
    return before.name == STAGING_QUEUE and (
        before.put == c.MQQA_PUT_INHIBITED != after.put
        or before.get == c.MQQA_GET_INHIBITED != after.get
    )


def _forget(
    core: Core, definition: QueueDefinition, queue: LocalQueue | None, *, own_handles: int = 0
) -> None:
    """Remove a definition from memory, then from disk; add it again when the disk write fails.

    ``queue`` is the local queue, None for other kinds; at most ``own_handles`` handles may have it
    open. Raises MQRC_OBJECT_IN_USE, MQRC_Q_NOT_EMPTY.
    """
    with core.engine_lock:
        if queue is not None:
            low, high = queue.low, queue.high
            core.engine_lock.wait_while(
                lambda: any(
                    low <= key < high and isinstance(owner, Transaction)
                    for key, owner in core.hidden.items()
                )
            )
            _check_unused(queue, own_handles)
            _check_empty(queue)
        core.registry.remove(definition.name)
    try:
        erase(core, definition)
    except MQError:
        with core.engine_lock:
            core.registry.add(definition, queue.number if queue else None, queue)
        raise
    if queue is not None:
        _forget_totals(core, queue)


def _forget_totals(core: Core, queue: LocalQueue) -> None:
    """Fail waiting gets of a deleted queue with MQRC_Q_DELETED, and delete its message counters."""
    numbers = [queue.number] if queue.staged_for else [queue.number, -queue.number]
    with core.engine_lock:
        core.waits.fail(mq_error(rc.MQRC_Q_DELETED, f"{queue.name} was deleted"), queue.number)
        triggering_of(core).forget(queue)
        core.performance.forget(queue)
    # Records of its lives that are still in memory go first; no new one can come.
    core.store.write_balances()
    with core.engine_lock:
        core.committer.pause()
        for number in numbers:
            core.store.ledger_writer.totals.forget_queue(number)
        core.committer.resume()
    transaction = Transaction()
    for number in numbers:
        transaction.unit.statements.append(("DELETE FROM counter WHERE queue_id = ?", (number,)))
    core.committer.run(transaction)


def _clear(core: Core, queue: LocalQueue, terminated_by: TerminatedBy) -> int:
    """Remove all visible messages of a queue, in batches; return their number.

    Messages whose redelivery is delayed are removed too. ``terminated_by`` is the user and program
    for the ledger of ended messages.
    """
    redeliver_all(core, queue)
    cleared = 0
    while True:
        with core.engine_lock:
            transaction, now_ms = Transaction(), core.now_ms()
            for row, persistence in in_order(core, queue, ANY, queue.low):
                found = queue, row, persistence
                queue_state.end(
                    core, transaction, found, Event.CLEAR, now_ms, terminated_by=terminated_by
                )
                if len(transaction.departures) == _CLEAR_BATCH:
                    break
        if not transaction.departures:
            return cleared
        cleared += len(transaction.departures)
        core.committer.run(transaction)


# Dynamic queues: made by opening a model queue, ended by their creator or a close option (C9)


def create_dynamic_queue(
    core: Core, model_name: str, dynamic_name: str, owners: tuple[str, ...] = ()
) -> str | None:
    """Create a dynamic queue from a model queue and return its name; None if it is no model queue.

    A ``*`` at the end of ``dynamic_name`` is replaced by a unique text; such a name has at most 33
    characters. ``owners`` are users who have all authority on the queue. Raises
    MQRC_DYNAMIC_Q_NAME_ERROR, MQRC_OBJECT_ALREADY_EXISTS.
    """
    model = core.registry.find(model_name)
    if model is None or model.kind != QMODEL:
        return None
    with core.definitions_lock:
        return _create_dynamic(core, model, dynamic_name, owners)


def _create_dynamic(core: Core, model: QueueDefinition, name: str, owners: tuple[str, ...]) -> str:
    """Create a dynamic queue from the definition of a model queue, and return the queue's name.

    ``owners`` are users who have all authority on it. The lock of definitions is held. Raises
    MQRC_DYNAMIC_Q_NAME_ERROR, MQRC_OBJECT_ALREADY_EXISTS.
    """
    if name.endswith("*"):
        if len(name) > _LAST_PLACE_OF_ASTERISK:
            raise mq_error(
                rc.MQRC_DYNAMIC_Q_NAME_ERROR,
                f"{name!r} has its * behind place {_LAST_PLACE_OF_ASTERISK}",
            )
        with core.engine_lock:
            sequence = core.store.sequence.next()
        name = f"{name[:-1]}{core.store.sequence.instance:05X}{sequence:011X}"
    try:
        check_name(name)
    except MQError as error:
        raise mq_error(rc.MQRC_DYNAMIC_Q_NAME_ERROR, error.detail) from None
    if core.registry.find(name) is not None:
        raise mq_error(rc.MQRC_OBJECT_ALREADY_EXISTS, f"{name} exists")
    known = attributes_of(QLOCAL).keys() | kept_attributes_of(QLOCAL).keys()
    # A dynamic queue is in no queue-sharing group, whatever its model says of one.
    given = {k: v for k, v in model.every_attribute.items() if k in known - {"QSGDISP"}}
    definition = QueueDefinition(QLOCAL, name, model.deftype, owners).altered(given)
    enter_queue(core, definition)
    return name


def drop_dynamic_queue(
    core: Core, queue: LocalQueue, options: int, terminated_by: TerminatedBy, *, is_owner: bool
) -> None:
    """Delete the queue of a handle that is being closed, if close options or its type demand it.

    A temporary queue is deleted with its messages when its creator (``is_owner``) closes it. A
    permanent one is deleted with MQCO_DELETE when empty, with MQCO_DELETE_PURGE in any case. Other
    handles then get MQRC_Q_DELETED. ``terminated_by`` is the user and program for the ledger of
    ended messages.

    Raises MQRC_OPTIONS_ERROR, MQRC_OPTION_NOT_VALID_FOR_TYPE for a delete option on any other
    queue, and MQRC_Q_NOT_EMPTY for MQCO_DELETE on one with messages, or for either option with
    uncommitted work.
    """
    if options & ~_DELETES or options == _DELETES:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"close options {options:#x}")
    if core.registry.by_name(queue.name) is not queue:
        return
    kind = queue.definition.definition_type
    is_temporary = is_owner and kind == c.MQQDT_TEMPORARY_DYNAMIC
    if not is_temporary and not options:
        return
    if not is_temporary and kind != c.MQQDT_PERMANENT_DYNAMIC:
        raise mq_error(
            rc.MQRC_OPTION_NOT_VALID_FOR_TYPE,
            f"{queue.name} is no dynamic queue that this handle may delete",
        )
    if not is_temporary and queue.has_uncommitted_work:
        raise mq_error(rc.MQRC_Q_NOT_EMPTY, f"{queue.name} has uncommitted work")
    purges = is_temporary or bool(options & c.MQCO_DELETE_PURGE)
    with core.definitions_lock:
        handles = queue.input_count + queue.output_count
        delete_queue(core, queue, purge=purges, own_handles=handles, terminated_by=terminated_by)


# Definitions of all kinds on disk


def save(core: Core, definition: Definition, number: int) -> None:
    """Store a definition; durable on return. ``number`` is that of a local queue, else 0.

    Temporary dynamic queues are not stored.
    """
    if definition.definition_type == c.MQQDT_TEMPORARY_DYNAMIC:
        return
    core.committer.run(_statement(*saving(definition, number)))


def save_together(core: Core, *definitions: Definition) -> None:
    """Store definitions that are not local queues in one transaction; durable on return."""
    transaction = Transaction()
    transaction.unit.statements.extend(saving(definition, 0) for definition in definitions)
    core.committer.run(transaction)


def erase(core: Core, definition: Definition) -> None:
    """Delete a definition from disk; durable on return, nothing happens when it is not stored."""
    sql = "DELETE FROM object WHERE kind = ? AND name = ?"
    core.committer.run(_statement(sql, (definition.kind, definition.name)))


def saving(definition: Definition, number: int) -> tuple[str, tuple[str | int, ...]]:
    """Return the SQL statement that stores a definition, and its bindings."""
    return _SAVE, (definition.kind, definition.name, number, definition.to_json())


def saving_prototype(prototype: Definition, number: int) -> tuple[str, tuple[str | int, ...]]:
    """Return what ``saving`` returns for a definition that never changes.

    A new queue manager has eighteen: to make their texts takes a fifth of its opening.
    """
    return _SAVE, (prototype.kind, prototype.name, number, _text_of(prototype))


@cache
def _text_of(prototype: Definition) -> str:
    return prototype.to_json()


def _statement(sql: str, bindings: tuple[str | int, ...]) -> Transaction:
    """Return a transaction with one SQL statement."""
    transaction = Transaction()
    transaction.unit.statements.append((sql, bindings))
    return transaction


def stored_definitions(store: Store) -> list[tuple[Definition, int]]:
    """Return all definitions of a store, each with its queue number, 0 for other objects.

    Raises StoreDamaged, which names the first definition that cannot be read.
    """
    found = []
    for kind, name, number, stored in store.objects():
        try:
            definition = TABLES[kind].from_json(kind, name, stored)
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            # A queue manager in memory reads nothing back.
            assert store.folder is not None
            raise StoreDamaged(
                f"the definition {kind} {name} is damaged: {error}", store.folder
            ) from error
        found.append((definition, number))
    return found


# The lock of definitions


@contextmanager
def definitions_unchanged(core: Core) -> Iterator[None]:
    """Hold the lock of definitions during a block, so that no other thread changes one.

    The block itself may change definitions. Those of a queue-sharing group may still be changed by
    other members.
    """
    with core.definitions_lock:
        yield


@contextmanager
def definitions_if_free(core: Core) -> Iterator[bool]:
    """Hold the lock of definitions during a block and yield True; yield False if it is taken.

    It does not wait for the lock.
    """
    is_free = core.definitions_lock.acquire(blocking=False)
    try:
        yield is_free
    finally:
        if is_free:
            core.definitions_lock.release()
