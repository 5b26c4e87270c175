"""Defines, alters, clears and deletes queues, processes, channels, AUTHINFO objects and rules.

Queues include dynamic ones. Rules are those of channels (CHLAUTH). Definitions are stored.
Authority records are set and deleted here as well; the first one turns the checks on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from functools import cache
from typing import Final

from mayfly.engine import queue_state
from mayfly.engine.attributes import (
    AUTHCHK_NONE,
    AUTHCHK_SEND,
    AUTHINFO,
    CHANNEL,
    CHLAUTH,
    CLNTCONN,
    LARGEST,
    LONGEST_MESSAGE_BYTES,
    PROCESS,
    QLOCAL,
    QMGR,
    QMODEL,
    QUEUE_KINDS,
    TABLES,
    AuthenticationDefinition,
    ChannelDefinition,
    ChannelRuleDefinition,
    Definition,
    QueueDefinition,
    attributes_of,
)
from mayfly.engine.authority.records import (
    CLASS_PROFILE,
    GROUP,
    PRINCIPAL,
    SELF,
    USER_CHARACTERS,
    Entity,
    RecordKey,
    check_profile,
    definition_of,
)
from mayfly.engine.authority.words import OBJECT_TYPES, bits_of, spelled
from mayfly.engine.core import Core
from mayfly.engine.delay.redelivery import redeliver_all
from mayfly.engine.finding.search import ANY, in_order
from mayfly.engine.kept_attributes import kept_attributes_of
from mayfly.engine.objects.registry import DEAD_LETTER_QUEUE, DEFAULT_OBJECTS
from mayfly.engine.queues import LocalQueue
from mayfly.engine.transaction import Transaction
from mayfly.engine.triggering import triggering_of
from mayfly.lifetime.life import Event
from mayfly.mqi import command_constants as k
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


ADD, REPLACE, REMOVE, REMOVEALL = "ADD", "REPLACE", "REMOVE", "REMOVEALL"
ACTIONS: Final = (ADD, REPLACE, REMOVE, REMOVEALL)
#: The types whose rules are lists, one for each profile, with the keyword of the list.
LISTS: Final = {k.MQCAUT_BLOCKUSER: "USERLIST", k.MQCAUT_BLOCKADDR: "ADDRLIST"}
#: Attributes by which a rule is found, beside its profile and its type.
_RULE_KEY: Final = ("sslpeer", "sslcerti", "clntuser", "qmname", "address")
DEFAULT_AUTHENTICATION: Final = "SYSTEM.DEFAULT.AUTHINFO.IDPWOS"
#: The model of a new channel, by type.
CHANNEL_MODELS: Final = {
    c.MQCHT_SVRCONN: "SYSTEM.DEF.SVRCONN",
    c.MQCHT_CLNTCONN: "SYSTEM.DEF.CLNTCONN",
}


def define_named(
    core: Core, kind: str, name: str, attributes: Mapping[str, Value], *, replace: bool = False
) -> None:
    """Define a process, channel or other named object; durable on return.

    Attributes that are left out have their defaults in a new object. With ``replace`` an existing
    object gets these attributes, and keeps the values of those left out. Raises
    MQRC_OBJECT_ALREADY_EXISTS without ``replace``, MQRC_OBJECT_NAME_ERROR.
    """
    check_name(name)
    core.check_running()
    with core.definitions_lock:
        existing = core.registry.named.get((kind, name))
        if existing is not None and not replace:
            raise mq_error(rc.MQRC_OBJECT_ALREADY_EXISTS, f"{kind} {name} exists")
        before = TABLES[kind](kind, name) if existing is None else existing
        keep_named(core, before.altered(attributes))


def alter_named(core: Core, kind: str, name: str, attributes: Mapping[str, Value]) -> None:
    """Change attributes of a process, channel or other named object; durable on return.

    Attributes that are left out keep their values. Raises MQRC_UNKNOWN_OBJECT_NAME.
    """
    core.check_running()
    with core.definitions_lock:
        definition = find_named(core, kind, name)
        keep_named(core, definition.altered(attributes))


def delete_named(core: Core, kind: str, name: str) -> None:
    """Delete a process, channel or other named object; raises MQRC_UNKNOWN_OBJECT_NAME."""
    core.check_running()
    with core.definitions_lock:
        forget_named(core, find_named(core, kind, name))


def find_named(core: Core, kind: str, name: str) -> Definition:
    """Return the definition of a process, channel or other named object.

    Raises MQRC_UNKNOWN_OBJECT_NAME.
    """
    definition = core.registry.named.get((kind, name))
    if definition is None:
        raise mq_error(rc.MQRC_UNKNOWN_OBJECT_NAME, f"{kind} {name} is not defined")
    return definition


def find_channel(core: Core, name: str) -> ChannelDefinition:
    """Return the definition of a channel of any type but CLNTCONN.

    Raises MQRC_UNKNOWN_OBJECT_NAME.
    """
    definition = find_named(core, CHANNEL, name)
    assert isinstance(definition, ChannelDefinition)
    return definition


def named_of(core: Core, kind: str) -> list[Definition]:
    """Return all definitions of a kind, such as PROCESS or CHANNEL, sorted by name."""
    return [core.registry.named[key] for key in sorted(core.registry.named) if key[0] == kind]


def keep_named(core: Core, definition: Definition) -> None:
    """Store a new or changed definition, then set it in memory; call it without the engine lock.

    Queues that name a new process in PROCESS may get their trigger messages at once.
    """
    save(core, definition, 0)
    with core.engine_lock:
        key = definition.kind, definition.name
        is_new, core.registry.named[key] = key not in core.registry.named, definition
        if is_new and definition.kind == PROCESS:
            triggering_of(core).process_defined(definition.name)
    core.committer.run_deferred()


def forget_named(core: Core, definition: Definition) -> None:
    """Delete a definition from disk, then from memory; call it without the engine lock."""
    erase(core, definition)
    with core.engine_lock:
        del core.registry.named[definition.kind, definition.name]


def set_rule(core: Core, rule: ChannelRuleDefinition, action: str) -> None:
    """Change the channel rules (SET CHLAUTH) by one of ``ACTIONS``; durable on return.

    ADD appends to a list, and raises MQRCCF_CHLAUTH_ALREADY_EXISTS for a map that exists. REMOVE
    removes entries of a list, or a map, and raises MQRCCF_CHLAUTH_NOT_FOUND. REMOVEALL removes all
    rules of that type for that profile. REPLACE sets the list or map.
    """
    core.check_running()
    with core.definitions_lock:
        rules = channel_rules(core)
        same = [r for r in rules if r.profile == rule.profile and r.type == rule.type]
        if action == REMOVEALL:
            for each in same:
                forget_named(core, each)
            return
        existing = next((r for r in same if _rule_key(r) == _rule_key(rule)), None)
        if rule.type in LISTS:
            _change_list(core, existing, rule, action)
        elif action == REMOVE:
            if existing is None:
                raise _missing_rule(rule)
            forget_named(core, existing)
        elif existing is not None and action == ADD:
            raise mq_error(
                k.MQRCCF_CHLAUTH_ALREADY_EXISTS,
                f"a rule for {rule.profile} by {' '.join(filter(None, _rule_key(rule)))} exists",
            )
        else:
            keep_named(core, _named_rule(rule))


def channel_rules(core: Core) -> list[ChannelRuleDefinition]:
    """Return all channel rules (CHLAUTH); the caller must not change them."""
    found = named_of(core, CHLAUTH)
    return [rule for rule in found if isinstance(rule, ChannelRuleDefinition)]


def entries_of(text: str) -> list[str]:
    """Return the non-empty entries of a comma-separated list: ``"a,,b"`` -> ``["a", "b"]``."""
    return [entry for entry in text.split(",") if entry]


def _named_rule(rule: ChannelRuleDefinition) -> ChannelRuleDefinition:
    """Set the name under which a channel rule is stored, made of profile, type and key.

    Returns the rule.
    """
    rule.name = " ".join((rule.profile, str(rule.type), *map(repr, _rule_key(rule))))
    return rule


def _change_list(
    core: Core, existing: ChannelRuleDefinition | None, rule: ChannelRuleDefinition, action: str
) -> None:
    """Change the entries of a list rule as ``action`` (ADD, REPLACE, REMOVE) says.

    ``rule`` has the entries to add or remove, ``existing`` is the rule now, None without one. A
    rule without entries left is deleted. Raises MQRCCF_CHLAUTH_NOT_FOUND when an entry to be
    removed is missing.
    """
    keyword = LISTS[rule.type]
    given = entries_of(str(rule.attributes[keyword]))
    before = [] if existing is None else entries_of(str(existing.attributes[keyword]))
    if action == REMOVE:
        if existing is None or not set(given) <= set(before):
            raise _missing_rule(rule)
        left = [entry for entry in before if entry not in given]
        if left:
            keep_named(core, _named_rule(existing.altered({keyword: ",".join(left)})))
        else:
            forget_named(core, existing)
        return
    entries = given if action == REPLACE else list(dict.fromkeys([*before, *given]))
    keep_named(core, _named_rule(rule.altered({keyword: ",".join(entries)})))


def _rule_key(rule: ChannelRuleDefinition) -> tuple[str, ...]:
    """Return the values that identify a channel rule besides its profile and type."""
    return tuple(str(getattr(rule, field)) for field in _RULE_KEY)


def _missing_rule(rule: ChannelRuleDefinition) -> MQError:
    """Return the error MQRCCF_CHLAUTH_NOT_FOUND, for the caller to raise."""
    return mq_error(k.MQRCCF_CHLAUTH_NOT_FOUND, f"there is no such rule for {rule.profile}")


def set_up_client_objects(core: Core, opening: Transaction) -> None:
    """Define the channels, rules and AUTHINFO object for clients, once for each queue manager.

    Does nothing when they were defined before, even if they were deleted since. ``opening`` stores
    them, and the queue manager's own attributes, which is the last that a new one stores. Every
    client needs a password (CHCKCLNT(REQUIRED)), so nobody can connect to a new queue manager.
    IBM MQ demands it of administrators only (REQDADM), as the operating system knows the other
    users.
    """
    manager = core.registry.queue_manager
    if manager.has_client_objects:
        return
    made = [one for one in _objects() if (one.kind, one.name) not in core.registry.named]
    with core.engine_lock:
        manager.connauth = manager.connauth or DEFAULT_AUTHENTICATION
        manager.has_client_objects = 1
        core.registry.named.update({(one.kind, one.name): one for one in made})
    opening.unit.statements.extend(saving_prototype(one, 0) for one in made)
    opening.unit.statements.append(saving(manager, 0))


@cache
def _objects() -> tuple[Definition, ...]:
    """Return the definitions of the objects for clients; the caller must not change them."""
    models = [
        ChannelDefinition(
            CLNTCONN if channel_type == c.MQCHT_CLNTCONN else CHANNEL,
            name,
            chltype=channel_type,
            trptype=c.MQXPT_TCP,
            discint=0,
        )
        for channel_type, name in CHANNEL_MODELS.items()
    ]
    authentication = AuthenticationDefinition(
        AUTHINFO, DEFAULT_AUTHENTICATION, chckclnt=k.MQCHK_REQUIRED
    )
    return (*models, authentication, *map(_named_rule, _first_rules()))


def _first_rules() -> list[ChannelRuleDefinition]:
    """Return the three channel rules that IBM MQ also begins with.

    They block administrators, and all channels of the system but the one for administration.
    """
    return [
        ChannelRuleDefinition(
            CHLAUTH,
            "",
            profile="*",
            type=k.MQCAUT_BLOCKUSER,
            userlist="*MQADMIN",
            descr="Administrators are kept out",
        ),
        ChannelRuleDefinition(
            CHLAUTH,
            "",
            profile="SYSTEM.*",
            type=k.MQCAUT_ADDRESSMAP,
            address="*",
            usersrc=c.MQUSRC_NOACCESS,
            descr="Channels of the system are closed",
        ),
        ChannelRuleDefinition(
            CHLAUTH,
            "",
            profile="SYSTEM.ADMIN.SVRCONN",
            type=k.MQCAUT_ADDRESSMAP,
            address="*",
            usersrc=c.MQUSRC_CHANNEL,
            descr="The channel for administration is open",
        ),
    ]


_LONGEST_NAME = {PRINCIPAL: USER_CHARACTERS, GROUP: 64}


def set_authority(
    core: Core,
    object_type: str,
    profile: str,
    entities: Sequence[Entity],
    *,
    add: Iterable[str] = (),
    remove: Iterable[str] = (),
) -> None:
    """Add authorities for users or groups on the objects of a profile, and remove others.

    Missing records are created. The very first record changes AUTHCHK(NONE) to AUTHCHK(SEND). All
    are durable on return, or none is set. Raises MQRC_OPTIONS_ERROR for a word that the object type
    does not have, a word both added and removed, and an invalid user or group;
    MQRC_OBJECT_TYPE_ERROR; and MQRC_OBJECT_NAME_ERROR for an invalid profile.
    """
    core.check_running()
    keys = [RecordKey(object_type, profile, entity) for entity in entities]
    for key in keys:
        check_key(core, key)
    added, removed = bits_of(object_type, add), bits_of(object_type, remove)
    if added & removed:
        raise mq_error(
            rc.MQRC_OPTIONS_ERROR, f"{spelled(added & removed)} is both added and removed"
        )
    records, manager = core.registry.authority, core.registry.queue_manager
    with core.definitions_lock:
        bits = {key: ((records.bits(key) or 0) | added) & ~removed for key in keys}
        checks = manager.authchk
        if not records and checks == AUTHCHK_NONE:
            checks = AUTHCHK_SEND
        changed = replace(manager, authchk=checks)
        save_together(core, changed, *(definition_of(key, bits[key]) for key in keys))
        with core.engine_lock:
            for key in keys:
                records.enter(key, bits[key])
            manager.authchk = checks
            core.registry.changed()


def delete_authority(core: Core, key: RecordKey) -> None:
    """Delete one authority record; durable on return.

    Authorities from other records stay. Raises MQRC_UNKNOWN_OBJECT_NAME when no record has this
    key, and for an invalid key MQRC_OBJECT_TYPE_ERROR, MQRC_OBJECT_NAME_ERROR or
    MQRC_OPTIONS_ERROR.
    """
    core.check_running()
    check_key(core, key)
    records = core.registry.authority
    with core.definitions_lock:
        bits = records.bits(key)
        if bits is None:
            kind, name = key.entity
            raise mq_error(
                rc.MQRC_UNKNOWN_OBJECT_NAME,
                f"no record of {kind} {name} for {key.object_type} {key.profile}",
            )
        erase(core, definition_of(key, bits))
        with core.engine_lock:
            records.remove(key)
            core.registry.changed()


def check_key(core: Core, key: RecordKey) -> None:
    """Raise an MQError if no authority record can have this key.

    MQRC_OBJECT_TYPE_ERROR: unknown type of object. MQRC_OBJECT_NAME_ERROR: invalid profile, or one
    for the queue manager other than SELF. MQRC_OPTIONS_ERROR: invalid user or group name.
    """
    if key.object_type not in OBJECT_TYPES:
        raise mq_error(
            rc.MQRC_OBJECT_TYPE_ERROR,
            f"object type {key.object_type!r} is not one of {', '.join(OBJECT_TYPES)}",
        )
    if key.object_type == QMGR and key.profile not in (SELF, CLASS_PROFILE):
        raise mq_error(
            rc.MQRC_OBJECT_NAME_ERROR,
            f"the profile of queue manager {core.name} is {SELF}, not {key.profile!r}",
        )
    check_profile(key.profile)
    check_entity(key.entity)


def check_entity(entity: Entity) -> None:
    """Raise MQRC_OPTIONS_ERROR unless a user or group name is valid.

    A name must be printable and not blank; a user has up to 12 characters, a group up to 64.
    """
    kind, name = entity
    longest = _LONGEST_NAME[kind]
    if not name.strip() or not name.isprintable() or len(name) > longest:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, f"{kind} {name!r} is not 1 to {longest} characters")
