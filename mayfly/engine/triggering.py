"""Triggering: when a queue triggers, which messages count, and the trigger messages (T1-T9)."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache, partial
from itertools import islice
from operator import attrgetter

from mayfly.engine.attributes import (
    PROCESS,
    QLOCAL,
    SWITCHED_OFF,
    Definition,
    ProcessDefinition,
    QueueDefinition,
)
from mayfly.engine.core import Core
from mayfly.engine.delivery import (
    MessageIds,
    OutgoingMessage,
    arrive,
    check_capacity,
    new_id,
    new_row,
)
from mayfly.engine.disposal import dead_letter, prepared_with_own_context
from mayfly.engine.queues import (
    CONDITIONS,
    INITIATION_CONDITIONS,
    PERSISTENT,
    VOLATILE,
    LocalQueue,
    Trigger,
    trigger_of,
)
from mayfly.engine.requester import Requester
from mayfly.engine.transaction import Transaction
from mayfly.lifetime.window import Window
from mayfly.mqi.constants import (
    MQAT_QMGR,
    MQPER_NOT_PERSISTENT,
    MQQA_GET_INHIBITED,
    MQQA_PUT_INHIBITED,
    MQTC_OFF,
    MQTC_ON,
    MQUS_TRANSMISSION,
)
from mayfly.mqi.descriptor import Descriptor, unpack_descriptor
from mayfly.mqi.errors import MQError
from mayfly.mqi.structures import TM
from mayfly.store.keys import MAX_PRIORITY, order_key
from mayfly.verbs.facts import Value

_SWITCH_OFF = (
    f"UPDATE object SET attributes = json_set(attributes, '$.TRIGGER', ?, "
    f"'$.{SWITCHED_OFF}', json('true')) WHERE kind = ? AND name = ?"
)
#: From now on it is as if an operator had switched it off.
_ENTRY_OFF = (
    f"UPDATE object SET attributes = json_remove(attributes, '$.{SWITCHED_OFF}') "
    "WHERE kind = ? AND name = ?"
)
_LARGEST_PAGE = 512
_LOG = logging.getLogger("mayfly.trigger")
_FORMAT = "MQTRIG"
_APPLICATION_LENGTH = 28
#: Fields of the MQTM that come from APPLICID, ENVRDATA and USERDATA; their lengths in bytes.
_TRIGGER_DATA_LENGTH = 64


def triggering_of(core: Core) -> Triggering:
    """Return the triggering object of a queue manager; every one has it."""
    assert isinstance(core.committer.arrival_hook, Triggering)
    return core.committer.arrival_hook


class Triggering:
    """Puts the trigger messages of one queue manager.

    All methods but ``held``, ``close`` and ``run`` need the engine lock. A caller that holds the
    lock calls ``run_deferred`` afterwards: only that stores the change of a queue to NOTRIGGER.
    """

    def __init__(self, core: Core) -> None:
        """Create the triggering of a queue manager, without triggers; see :meth:`set_trigger`."""
        self._core = core
        #: Keys of what has arrived on queues that trigger, and is still to be looked at.
        self.arrived: dict[LocalQueue, list[int]] = {}
        self._by_initiation_queue: defaultdict[str, set[LocalQueue]] = defaultdict(set)
        #: Queues with messages that arrived since the last trigger message and made none.
        self._waiting: set[LocalQueue] = set()
        #: Queues whose definition is being changed, and whether one would have triggered meanwhile.
        self._held: dict[LocalQueue, bool] = {}
        #: Queues that have switched themselves off, with the keys of their trigger messages.
        self._trigger_keys: dict[LocalQueue, list[int]] = {}
        #: Transactions that switch queues off, until they are on the disk.
        self._switching: dict[LocalQueue, Transaction] = {}
        self._is_looking = False

    def set_trigger(self, queue: LocalQueue) -> None:
        """Set the trigger of a queue from its definition; the last trigger time stays."""
        last_ms = None if queue.trigger is None else queue.trigger.last_ms
        self._drop_trigger(queue)
        trigger = queue.trigger = trigger_of(queue.definition, queue.number, last_ms)
        if trigger is not None:
            self._by_initiation_queue[trigger.initiation_queue].add(queue)

    def restore(self, queue: LocalQueue) -> None:
        """Set the trigger of a queue when its store is opened.

        A queue that triggering had set to NOTRIGGER is switched on again (T4), because its trigger
        message is lost at the end of the queue manager.
        """
        definition = queue.definition
        if definition.is_switched_off:
            definition.trigger = MQTC_ON
            definition.is_switched_off = False
        self.set_trigger(queue)

    def close(self) -> None:
        """Make NOTRIGGER permanent, on disk, for queues whose trigger messages a program has read.

        Call it without the lock, before the close discards the trigger messages.
        """
        core, transaction = self._core, Transaction()
        with core.engine_lock:
            for queue, keys in self._trigger_keys.items():
                definition = queue.definition
                is_read = all(core.messages(VOLATILE).row(key) is None for key in keys)
                if definition.is_switched_off and is_read:
                    definition.is_switched_off = False
                    transaction.unit.statements.append(
                        (_ENTRY_OFF, (definition.kind, definition.name))
                    )
        if transaction.unit.statements:
            core.committer.run(transaction)

    def forget(self, queue: LocalQueue) -> None:
        """Remove a queue that is being deleted, with its trigger; an unknown queue is no error."""
        self._waiting.discard(queue)
        self._trigger_keys.pop(queue, None)
        self._drop_trigger(queue)

    def note(self, queue: LocalQueue, keys: Iterable[int]) -> None:
        """Record keys of messages that arrived or were backed out, for later checks.

        :meth:`look_at_arrivals` checks them. Does nothing when the queue has no trigger.
        """
        if queue.trigger is not None:
            self.arrived.setdefault(queue, []).extend(keys)

    def look_at_arrivals(self) -> None:
        """Put the trigger messages for queues on which messages have arrived.

        Initiation queues on which these arrive may trigger too. Each queue is then checked once,
        because queues may name each other as initiation queues. A call during another call returns
        at once: the other one looks at the new arrivals as well.
        """
        if self._is_looking or not self.arrived:
            # A trigger message has arrived: the function that puts it looks again.
            return
        seen, self._is_looking = set[LocalQueue](), True
        is_by_triggers = False
        try:
            while self.arrived:
                arrived, self.arrived = self.arrived, {}
                for queue, keys in arrived.items():
                    if queue.trigger is not None and queue not in seen:
                        self._note_arrivals(queue, queue.trigger, keys)
                if is_by_triggers:
                    seen.update(arrived)
                is_by_triggers = True
        finally:
            self._is_looking = False

    def input_closed(self, queue: LocalQueue) -> None:
        """Check a queue that no program has open for input any more.

        A trigger message may be put for the messages left on it, unless TRIGTYPE is EVERY.
        """
        if queue.trigger is not None and not queue.trigger.is_every:
            self._check(queue)

    def input_opened(self, queue: LocalQueue) -> None:
        """Check all queues that name this queue as INITQ, because it was opened for input.

        Trigger messages may be put on it for them.
        """
        if queue.name in self._by_initiation_queue:
            self._check_queues_of(queue)

    def process_defined(self, name: str) -> None:
        """Check all queues whose PROCESS is this new process.

        Trigger messages may be put for them.
        """
        for queues in list(self._by_initiation_queue.values()):
            for queue in sorted(queues, key=attrgetter("number")):
                if queue.trigger is not None and queue.trigger.process == name:
                    self._check(queue)

    @contextmanager
    def held(self, queue: LocalQueue | None) -> Iterator[None]:
        """Keep a queue from switching itself to NOTRIGGER while the block changes its definition.

        Otherwise memory and disk could see the two changes in different orders. If a trigger
        message was due during the block and the definition did not change, the queue is checked
        again at the end. With ``queue`` None the block just runs. Call it without the engine lock.
        """
        if queue is None:
            yield
            return
        while not self._hold(queue):
            self._core.committer.run_deferred()
        try:
            yield
        finally:
            with self._core.engine_lock:
                if self._held.pop(queue, False):
                    # The change was refused.
                    self._check(queue)

    def changed(self, definition: Definition, before: Mapping[str, Value]) -> None:
        """Renew the trigger of a queue whose definition has changed on disk; it may trigger now.

        Changes of PUT, GET or USAGE also check the queues that name it as INITQ. ``before`` holds
        the old attributes. Other definitions than local queues are ignored.
        """
        queue = self._core.registry.by_name(definition.name) if definition.kind == QLOCAL else None
        if queue is None:
            return
        may_trigger = self._held.pop(queue, False) or queue.trigger is None
        self.set_trigger(queue)
        after = definition.attributes
        altered = {keyword for keyword in after if before.get(keyword) != after[keyword]}
        if may_trigger or altered & CONDITIONS:
            self._check(queue)
        if altered & INITIATION_CONDITIONS:
            self._check_queues_of(queue)

    def next_due_ms(self) -> int | None:
        """Return when TRIGINT has passed for the first waiting queue, in ms since 1970.

        None when no queue waits for it.
        """
        since = [
            queue.trigger.last_ms
            for queue in self._waiting
            if queue.trigger is not None and queue.trigger.last_ms is not None
        ]
        return min(since) + self._interval_ms() if since else None

    def run(self) -> None:
        """Put the trigger messages that waited for TRIGINT and are due.

        Call it without the engine lock.
        """
        core = self._core
        with core.engine_lock:
            now_ms = core.now_ms()
            for queue in sorted(self._waiting, key=attrgetter("number")):
                trigger = queue.trigger
                if trigger is None or trigger.last_ms is None:
                    self._waiting.discard(queue)
                elif trigger.last_ms + self._interval_ms() <= now_ms:
                    self._waiting.discard(queue)
                    self._check(queue)
        core.committer.run_deferred()

    def _note_arrivals(self, queue: LocalQueue, trigger: Trigger, keys: Sequence[int]) -> None:
        """Trigger, or wait for TRIGINT, after the messages ``keys`` have arrived on a queue.

        Does nothing when none of them counts. With FIRST and DEPTH, it also does nothing while a
        program has the queue open for input.
        """
        core = self._core
        count = qualifying_count(core, queue, trigger, keys)
        if not count:
            return
        if trigger.is_every:
            self._trigger(queue, trigger, count)
        elif queue.input_count:
            # The program that has it open finds them, or leaves them behind at its close.
            return
        elif trigger.is_depth:
            self._check(queue)
        elif self._is_first_to_come(queue, trigger, count):
            self._trigger(queue, trigger, 1)
        elif queue not in self._waiting:
            self._waiting.add(queue)
            core.must_wake = True

    def _is_first_to_come(self, queue: LocalQueue, trigger: Trigger, count: int) -> bool:
        """Return True if the queue was empty before ``count`` arrivals, or TRIGINT has passed.

        TRIGINT counts from the last trigger message.
        """
        if qualifying_depth(self._core, queue, trigger, count + 1) <= count:
            return True
        last_ms = trigger.last_ms
        return last_ms is None or last_ms + self._interval_ms() <= self._core.now_ms()

    def _check(self, queue: LocalQueue) -> None:
        """Put a trigger message for a queue if enough messages are on it, newly arrived or not.

        Does nothing when the queue has no trigger. With FIRST and DEPTH, it also does nothing while
        a program has the queue open for input.
        """
        core, trigger = self._core, queue.trigger
        if trigger is None or (queue.input_count and not trigger.is_every):
            return
        needed = trigger.messages_needed
        if qualifying_depth(core, queue, trigger, needed) >= needed:
            self._trigger(queue, trigger, 1)

    def _check_queues_of(self, initiation_queue: LocalQueue) -> None:
        """Check all queues that have this initiation queue."""
        queues = self._by_initiation_queue.get(initiation_queue.name, set())
        for queue in sorted(queues, key=attrgetter("number")):
            self._check(queue)

    def _drop_trigger(self, queue: LocalQueue) -> None:
        """Remove the trigger of a queue; does nothing when it has none."""
        if queue.trigger is not None:
            self._by_initiation_queue[queue.trigger.initiation_queue].discard(queue)
            queue.trigger = None

    def _trigger(self, queue: LocalQueue, trigger: Trigger, count: int) -> None:
        """Put ``count`` trigger messages for a queue, if a program can read them now (T1).

        With TRIGTYPE(DEPTH) the queue is then set to NOTRIGGER. Does nothing while the queue
        manager closes, or when :meth:`_is_served` returns False.
        """
        core = self._core
        if core.is_closing or core.is_stopped or not self._is_served(queue, trigger):
            return
        if queue in self._held and trigger.is_depth:
            self._held[queue] = True
            return
        definition = queue.definition
        transaction, kept = put_trigger_messages(core, definition, trigger.initiation_queue, count)
        # A lost trigger message counts as none: the next arrival tries again (T9).
        trigger.last_ms = core.now_ms() if kept else None
        self._waiting.discard(queue)
        if not kept:
            return
        if not core.committer.run_at_once(transaction):
            # The dead-letter queue is a shared one.
            core.committer.deferred.append(transaction)
        if trigger.is_depth:
            self._switch_off(queue, [row.k for _queue, row, _persistence in transaction.arrivals])

    def _is_served(self, queue: LocalQueue, trigger: Trigger) -> bool:
        """Return True if the initiation queue is usable and open for input.

        The process must also be defined, unless the queue is a transmission queue.
        """
        registry = self._core.registry
        initiation_queue = registry.by_name(trigger.initiation_queue)
        if initiation_queue is None or initiation_queue is queue:
            return False
        if not initiation_queue.input_count or initiation_queue.owner is not queue.owner:
            return False
        definition = initiation_queue.definition
        if definition.put == MQQA_PUT_INHIBITED or definition.get == MQQA_GET_INHIBITED:
            return False
        if definition.usage == MQUS_TRANSMISSION:
            return False
        return trigger.process is None or (PROCESS, trigger.process) in registry.named

    def _switch_off(self, queue: LocalQueue, keys: list[int]) -> None:
        """Set a queue to NOTRIGGER (T4), in memory now and on disk by a deferred transaction.

        ``keys`` are the keys of its trigger messages.
        """
        core, definition = self._core, queue.definition
        definition.trigger = MQTC_OFF
        definition.is_switched_off = True
        self._trigger_keys[queue] = keys
        self._drop_trigger(queue)
        transaction = Transaction()
        transaction.unit.statements.append(
            (_SWITCH_OFF, (MQTC_OFF, definition.kind, definition.name))
        )
        transaction.effects.append(partial(self._switched, queue))
        self._switching[queue] = transaction
        core.committer.deferred.append(transaction)

    def _hold(self, queue: LocalQueue) -> bool:
        """Keep a queue from switching itself to NOTRIGGER until :meth:`held` ends; return True.

        Returns False when deferred transactions must be run first. Waits while a switch to
        NOTRIGGER is being written.
        """
        core = self._core
        with core.engine_lock:
            core.engine_lock.wait_while(
                lambda: (
                    self._is_switching(queue)
                    and self._switching[queue] not in core.committer.deferred
                )
            )
            if self._is_switching(queue):
                return False
            self._held[queue] = False
            return True

    def _is_switching(self, queue: LocalQueue) -> bool:
        """Return True while the change of a queue to NOTRIGGER is not on disk yet.

        False after that write has failed, or when the queue manager has stopped.
        """
        transaction = self._switching.get(queue)
        # One that a full disk has refused is not tried again: the next change is saved whole.
        return (
            transaction is not None and transaction.unit.error is None and not self._core.is_stopped
        )

    def _switched(self, queue: LocalQueue) -> None:
        """Note that the change of a queue to NOTRIGGER is on disk."""
        self._switching.pop(queue, None)

    def _interval_ms(self) -> int:
        """Return the queue manager attribute TRIGINT, in ms."""
        return self._core.registry.queue_manager.trigint


def qualifying_depth(core: Core, queue: LocalQueue, trigger: Trigger, enough: int) -> int:
    """Return how many messages on a queue count for its trigger; counting stops at ``enough``.

    They have at least priority TRIGMPRI. Messages that an open unit of work has put or got do not
    count; those locked by a browse do. The caller holds the engine lock.
    """
    assert core.engine_lock.is_held()
    committed = queue.depth - queue.uncommitted
    if not trigger.least_priority or committed <= 0:
        return min(committed, enough)
    keys = _qualifying_keys(core, queue, trigger, min(enough, _LARGEST_PAGE))
    return sum(1 for _key in islice(keys, enough))


def qualifying_count(core: Core, queue: LocalQueue, trigger: Trigger, keys: Sequence[int]) -> int:
    """Return how many of the messages ``keys``, which have just arrived, count for the trigger.

    They count with at least priority TRIGMPRI. The caller holds the engine lock.
    """
    assert core.engine_lock.is_held()
    if not trigger.least_priority:
        return len(keys)
    if not trigger.is_fifo:
        end = _end_key(queue, trigger)
        return sum(1 for key in keys if key < end)
    return sum(1 for key in keys if _has_priority(core, key, trigger))


def _has_priority(core: Core, key: int, trigger: Trigger) -> bool:
    """Return True if the message with a key has at least priority TRIGMPRI; False if it is gone."""
    for persistence in (VOLATILE, PERSISTENT):
        for _key, packed in core.messages(persistence).described(key, key + 1, 1):
            return unpack_descriptor(packed).priority >= trigger.least_priority
    return False


def _qualifying_keys(core: Core, queue: LocalQueue, trigger: Trigger, page: int) -> Iterator[int]:
    """Yield the keys of committed messages that count for the trigger, read ``page`` at a time."""
    high = queue.high if trigger.is_fifo else _end_key(queue, trigger)
    on_the_way = set(_on_the_way(core, queue))
    for persistence in (VOLATILE, PERSISTENT):
        low = queue.low if queue.present[persistence] else high
        while low < high:
            rows = core.messages(persistence).described(low, high, page)
            for key, packed in rows:
                if key in on_the_way or not _is_there(core, key):
                    continue
                # On a FIFO queue keys do not contain the priority; the descriptor does.
                priority = unpack_descriptor(packed).priority if trigger.is_fifo else MAX_PRIORITY
                if priority >= trigger.least_priority:
                    yield key
            low = rows[-1][0] + 1 if len(rows) == page else high
            page = min(8 * page, _LARGEST_PAGE)


def _end_key(queue: LocalQueue, trigger: Trigger) -> int:
    """Return the first key of messages with a priority below TRIGMPRI.

    Keys sort by priority, the highest first.
    """
    return order_key(queue.number, trigger.least_priority - 1, 0)


def _is_there(core: Core, key: int) -> bool:
    """Return True if no unit of work or transaction hides the message with this key."""
    hider = core.hidden.get(key)
    return hider is None or isinstance(hider, Requester)


def _on_the_way(core: Core, queue: LocalQueue) -> Iterator[int]:
    """Yield the keys of messages that running transactions put on a queue.

    They may be in the store already, but are not visible yet.
    """
    for transaction in core.committer.under_way:
        yield from (row.k for target, row, _persistence in transaction.arrivals if target is queue)
        for moving in transaction.moves:
            if moving.target is queue:
                yield from moving.new_keys
        for unclaiming in transaction.ended_claims:
            if unclaiming.queue is queue:
                yield from unclaiming.keys


def put_trigger_messages(
    core: Core, definition: QueueDefinition, initiation_queue: str, count: int
) -> tuple[Transaction, int]:
    """Return a transaction that puts ``count`` trigger messages, and how many of them it puts.

    The caller runs the transaction. ``definition`` is that of the queue that triggers. The messages
    never expire, whatever CAPEXPRY the initiation queue has, and do not survive a restart. One that
    the initiation queue refuses goes to the dead-letter queue. If that fails too, a warning is
    logged and the trigger message is lost.
    """
    transaction, kept, now_ms = Transaction(), 0, core.now_ms()
    path = core.registry.resolve(initiation_queue)
    prepared = prepared_with_own_context(core, _descriptor(core.name, path.default_priority))
    body = _body(core, definition)
    window = Window(now_ms, now_ms, None)
    for _ in range(count):
        message = OutgoingMessage(prepared, window, MessageIds(new_id(core), b""), body)
        try:
            check_capacity(path, prepared, len(body))
        except MQError as failure:
            try:
                dead_letter(core, transaction, message, failure.reason, initiation_queue)
            except MQError as error:
                text = f"trigger message for {definition.name} is lost: {failure}; {error}"
                kind = "trigger", definition.name, failure.reason, error.reason
                core.alike_warnings.note(_LOG, kind, now_ms, text)
                continue
        else:
            arrive(core, transaction, path, prepared, new_row(core, path, message))
        kept += 1
    return transaction, kept


@lru_cache(maxsize=64)
def _descriptor(manager_name: str, priority: int) -> Descriptor:
    """Return the MQMD of a trigger message: non-persistent, Format MQTRIG; cached."""
    return Descriptor(
        priority=priority,
        persistence=MQPER_NOT_PERSISTENT,
        put_appl_type=MQAT_QMGR,
        put_appl_name=manager_name[:_APPLICATION_LENGTH],
        format=_FORMAT,
        reply_to_q_mgr=manager_name,
    )


def _body(core: Core, definition: QueueDefinition) -> bytes:
    """Return the MQTM for a queue; without a defined process its program fields are empty."""
    name = definition.process
    process = core.registry.named.get((PROCESS, name))
    if isinstance(process, ProcessDefinition):
        applicid, userdata = process.applicid, process.userdata
        appltype, envrdata = process.appltype, process.envrdata
    else:
        applicid = envrdata = userdata = ""
        appltype = 0
    return _packed(
        definition.name, name, definition.trigdata, appltype, applicid, envrdata, userdata
    )


@lru_cache(maxsize=1024)
def _packed(
    queue: str,
    process: str,
    trigger_data: str,
    appltype: int,
    applicid: str,
    envrdata: str,
    userdata: str,
) -> bytes:
    """Return an MQTM with these fields as bytes; texts too long for their fields are cut."""
    return TM.pack(
        {
            "QName": queue,
            "ProcessName": process,
            "TriggerData": _cut(trigger_data, _TRIGGER_DATA_LENGTH),
            "ApplType": appltype,
            "ApplId": _cut(applicid, 256),
            "EnvData": _cut(envrdata, 128),
            "UserData": _cut(userdata, 128),
        }
    )


def _cut(text: str, length: int) -> str:
    """Return the start of a text that fits ``length`` bytes of UTF-8.

    MQSC attributes are limited in characters, MQTM fields in bytes.
    """
    return text if text.isascii() else text.encode()[:length].decode(errors="ignore")
