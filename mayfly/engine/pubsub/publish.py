"""MQPUT to a topic: one copy for each matching subscription, all or none, and the retained one.

The retained publication of a topic is its last one, kept for later subscribers. It is a message on
SYSTEM.RETAINED.PUB.QUEUE, one for each topic string, and may expire there. The row holds the topic
string. The first retained publication creates the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from mayfly.engine import queue_state
from mayfly.engine.attributes import (
    LARGEST,
    LONGEST_MESSAGE_BYTES,
    PRIORITY_AS_PUBLISHED,
    PRIORITY_AS_QUEUE,
    QLOCAL,
    QueueDefinition,
)
from mayfly.engine.callbacks import Completion
from mayfly.engine.core import Core
from mayfly.engine.delay.staging import CAP_AT_RELEASE, Delayed, staged_row, staging_path
from mayfly.engine.delivery import (
    MessageIds,
    OutgoingMessage,
    arrive,
    check_capacity,
    check_open,
    new_id,
    new_row,
)
from mayfly.engine.descriptors import Context, Prepared, check_header, prepare
from mayfly.engine.disposal import dead_letter, prepared_with_own_context, send_report
from mayfly.engine.expiry import discard_expired
from mayfly.engine.finding.next_live import FIXED_SIZE, TURN_WORK, SelectorResults, is_long
from mayfly.engine.finding.search import fields_of
from mayfly.engine.groups.place import IN_GROUP, IN_SEGMENTS
from mayfly.engine.objects.administration import enter_queue
from mayfly.engine.objects.registry import Registry, ResolvedQueue, topic_alias
from mayfly.engine.pubsub.proxies import HERE, Journey, enveloped, is_proxy, neighbour_of
from mayfly.engine.pubsub.topics import RetainedPlace, Subscription, TopicValues
from mayfly.engine.put import PutRequest, check_delay
from mayfly.engine.queues import PERSISTENT, VOLATILE, Found
from mayfly.engine.requester import Requester
from mayfly.engine.transaction import Transaction
from mayfly.engine.unit_of_work import UncommittedPut, UnitOfWork
from mayfly.lifetime.life import Event
from mayfly.lifetime.moments import is_expired
from mayfly.lifetime.reports import Cause, Original, is_owed
from mayfly.lifetime.times import ms_of_tenths, put_date, put_time
from mayfly.lifetime.window import Window, capped_from, remaining_ms, window_at_put
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQMDS_FIFO, MQPER_NOT_PERSISTENT
from mayfly.mqi.descriptor import Descriptor, unpack_descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.store.units import StoredMessage, stored_message
from mayfly.verbs.contracts.outcomes import NOBODY, DetectedBy
from mayfly.verbs.properties.selectors.fields import SelectorFields
from mayfly.verbs.properties.selectors.selector import Selector
from mayfly.verbs.topic_strings import check_topic_string, has_wildcards, levels_of, matches


def prepared_for(
    core: Core, subscription: Subscription, path: ResolvedQueue, publication: Prepared
) -> Prepared:
    """Return the checked descriptor of a publication, changed for one subscriber's copy.

    PUBPRTY of the subscription sets the priority. A copy on a temporary dynamic queue becomes
    non-persistent, as that queue is lost at a restart. Without a difference, ``publication`` itself
    is returned.
    """
    priority = publication.descriptor.priority
    if subscription.priority == PRIORITY_AS_QUEUE:
        priority = path.default_priority
    elif subscription.priority != PRIORITY_AS_PUBLISHED:
        priority = subscription.priority
    makes_volatile = path.is_temporary and publication.persistent
    if priority == publication.descriptor.priority and not makes_volatile:
        return publication
    descriptor = publication.descriptor._replace(priority=priority)
    if makes_volatile:
        descriptor = descriptor._replace(persistence=MQPER_NOT_PERSISTENT)
    return prepared_with_own_context(core, descriptor)


class CopyRows:
    """Builds the store rows for the copies of one publication; use it under the engine lock."""

    def __init__(self, core: Core, topic: str, msg_id: bytes) -> None:
        """Prepare for copies of one publication, which all have this topic and MsgId."""
        self._core, self._topic, self._msg_id = core, topic, msg_id
        #: A copy of the same content as the last one has the same values behind the key.
        self._last_content: tuple[Prepared, Window, bytes, bytes] | None = None
        self._last_values: tuple[Any, ...] = ()

    def row(
        self, path: ResolvedQueue, prepared: Prepared, window: Window, correl_id: bytes, body: bytes
    ) -> StoredMessage:
        """Return a new row, with a new key, for one copy on the queue that ``path`` leads to.

        The values after the key are reused from the previous row when descriptor, window, CorrelId
        and body are equal. On a transmission queue the row is always built anew.
        """
        content = prepared, window, correl_id, body
        if path.remote is None and content == self._last_content:
            number = path.queue.owner.store.sequence.next()
            key = path.slots[prepared.order_priority] | number
            return stored_message((key, *self._last_values))
        message = prepared, window, MessageIds(self._msg_id, correl_id), body
        row = new_row(self._core, path, message)._replace(topic=self._topic)
        if path.remote is None:
            self._last_content, self._last_values = content, row[1:]
        return row


def staged_copy(
    core: Core, subscription: Subscription, topic: str, publication: OutgoingMessage
) -> UncommittedPut:
    """Return a put to the staging queue for one subscriber's copy of a delayed publication.

    Nothing is stored yet. The expiry limits (CAPEXPRY) of the target queue shorten the copy's time
    to live. A limit that ends before the delivery time is applied at the delivery instead. A target
    queue that cannot be resolved now is no error. Raises MQRC_UNKNOWN_OBJECT_NAME,
    MQRC_PUT_INHIBITED, MQRC_Q_FULL and the other errors of ``staging_path`` for the staging queue.
    The caller holds the engine lock.
    """
    assert core.engine_lock.is_held()
    prepared, window, ids, body = publication
    waits_for_cap = False
    path: ResolvedQueue | None
    try:
        path = core.registry.resolve_target(subscription.destination)
    except MQError:
        # It may lead somewhere when the delay is over.
        path = None
    if path is not None:
        prepared = prepared_for(core, subscription, path, prepared)
        try:
            window = window_on(path, window)
        except MQError:
            waits_for_cap = True
    staging = staging_path(core, len(body)).queue
    row = staged_row(core, path, Delayed(prepared, window, ids.msg_id, ids.correl_id, body))
    row = row._replace(target=subscription.destination, sub_id=subscription.sub_id, topic=topic)
    if waits_for_cap:
        row = row._replace(ttl_from_release=CAP_AT_RELEASE)
    return UncommittedPut(staging, row, prepared.persistent)


def window_on(path: ResolvedQueue, window: Window) -> Window:
    """Return the window (put, delivery and expiry time) of a copy, limited by its queue's CAPEXPRY.

    Without a limit or TTLFROM(RELEASE) on the queue, ``window`` is returned unchanged. Raises
    MQRC_EXPIRY_ERROR when the limit lets the copy expire before its delivery time (D31).
    """
    if path.cap_ms is None and not path.ttl_from_release:
        return window
    put_ms, deliver_at_ms, expire_at_ms, earlier_cap = window
    left_ms = None if expire_at_ms is None else expire_at_ms - put_ms
    found = window_at_put(
        put_ms,
        left_ms,
        deliver_at_ms - put_ms,
        path.cap_ms,
        from_release=path.ttl_from_release,
        capped_by=path.capped_by,
    )
    return found if found.capped_by is not None else found._replace(capped_by=earlier_cap)


RETAINED_QUEUE = "SYSTEM.RETAINED.PUB.QUEUE"
_PAGE = 1_000
#: Retained publications that are read for a selector in one turn of the lock.
_ASKED_AT_A_TIME = 16


def ensure_retained_queue(core: Core) -> None:
    """Define SYSTEM.RETAINED.PUB.QUEUE unless it exists; call it without the engine lock."""
    with core.definitions_lock:
        if core.registry.by_name(RETAINED_QUEUE) is None:
            definition = QueueDefinition(
                QLOCAL,
                RETAINED_QUEUE,
                maxdepth=LARGEST,
                maxmsgl=LONGEST_MESSAGE_BYTES,
                msgdlvsq=MQMDS_FIFO,
            )
            enter_queue(core, definition)


def is_outdated(core: Core, topic: str, msg_id: bytes, descriptor: Descriptor) -> bool:
    """Return True if the topic's retained publication is the same (MsgId) or was published later.

    PutDate and PutTime decide, to 10 ms. For equal times the higher MsgId counts as later, so that
    all queue managers agree. False when the topic has no retained publication. The caller holds the
    engine lock.
    """
    assert core.engine_lock.is_held()
    found = _kept(core, topic)
    if found is None:
        return False
    row = found[1]
    if row.msg_id == msg_id:
        return True
    here = unpack_descriptor(row.descriptor)
    published = descriptor.put_date, descriptor.put_time, msg_id
    return (here.put_date, here.put_time, row.msg_id) > published


def retain(
    core: Core,
    transaction: Transaction,
    topic: str,
    message: OutgoingMessage,
    *,
    yields: bool = False,
    only_here: bool = False,
) -> Callable[[], Transaction | None]:
    """Put a publication on the retained queue; return an effect that makes it the retained one.

    The caller adds that effect to the transaction, which runs it after the commit. With ``yields``,
    the effect removes the publication if a later one is retained by then. With ``only_here``, the
    publication is sent to no neighbour. Raises MQRC_PUT_NOT_RETAINED when the retained queue
    refuses it. The caller holds the engine lock.
    """
    assert core.engine_lock.is_held()
    prepared, window, ids, body = message
    # A retained publication owes no report, and keeps the time at which it was published.
    now_ms = core.now_ms()
    dated = prepared.descriptor._replace(
        report=0,
        put_date=prepared.descriptor.put_date or put_date(now_ms),
        put_time=prepared.descriptor.put_time or put_time(now_ms),
    )
    silent = prepared_with_own_context(core, dated)
    try:
        path = core.registry.resolve(RETAINED_QUEUE)
        check_open(path, len(body))
    except MQError as error:
        raise mq_error(rc.MQRC_PUT_NOT_RETAINED, f"{RETAINED_QUEUE} refuses it: {error}") from error
    capped = capped_from(window, now_ms, path.cap_ms, path.capped_by)
    row = new_row(core, path, OutgoingMessage(silent, capped, ids, body))._replace(topic=topic)
    if only_here:
        row = row._replace(only_here=True)
    arrive(core, transaction, path, silent, row)
    place = RetainedPlace(row.k, PERSISTENT if silent.persistent else VOLATILE)
    return partial(_yield_or_settle if yields else _settle, core, topic, place)


def clear_retained(core: Core, topic: str) -> bool:
    """Remove the retained publication of a topic, also on disk; call it without the engine lock.

    Returns True if an unexpired one existed, else False. After MQRC_STORAGE_MEDIUM_FULL it is still
    retained.
    """
    with core.engine_lock:
        core.check_running()
        found = _kept(core, topic)
        is_there = found is not None and not is_expired(found[1].expire_at_ms, core.now_ms())
        transaction = end_retained(core, topic)
    if transaction is not None:
        core.committer.run(transaction)
    return is_there


def end_retained(core: Core, topic: str) -> Transaction | None:
    """Return a transaction that removes the retained publication of a topic.

    None when the topic has no retained publication. The caller holds the engine lock and runs the
    transaction.
    """
    assert core.engine_lock.is_held()
    place = core.registry.retained.get(topic)
    found = None if place is None else _found(core, place)
    if place is None or found is None:
        return None
    transaction = _removal(core, found)
    transaction.effects.append(partial(_forget, core, topic, place))
    return transaction


def deliver_retained(
    core: Core, subscription: Subscription, selector_results: SelectorResults | None = None
) -> int:
    """Put copies of the matching retained publications on a subscription's queue.

    Returns the number of copies. A copy expires when the retained publication expires, or earlier
    by CAPEXPRY. ``selector_results`` are from :func:`ask_of_retained`, for a caller that holds a
    lock; None evaluates the selector here. If one copy cannot be put, that error is raised and no
    copy is put.
    """
    if selector_results is None:
        selector_results = ask_of_retained(core, subscription.topic, subscription.selector)
    is_evaluated = False
    while not is_evaluated:
        with core.engine_lock:
            transaction, now_ms = Transaction(), core.now_ms()
            try:
                for topic, row in _matching(core, subscription, now_ms, selector_results):
                    _add_copy(core, transaction, subscription, topic, row)
            except MQError:
                queue_state.withdraw_all(transaction)
                raise
            is_evaluated = not selector_results.unevaluated
            if is_evaluated:
                count = len(transaction.arrivals)
                if count:
                    subscription.count_copies(count, now_ms)
                is_done = not count or core.committer.run_at_once(transaction)
            else:
                queue_state.withdraw_all(transaction)
        if selector_results.unevaluated:
            # These were retained after the others had been evaluated.
            assert subscription.selector is not None
            selector_results.evaluate(_asker(subscription.selector, now_ms))
    if is_done:
        core.committer.run_deferred()
    else:
        core.committer.run(transaction)
    return count


def load_retained(core: Core) -> None:
    """Rebuild the index of retained publications when a store is opened.

    Only the latest publication of a topic stays; older ones are removed by deferred transactions.
    Does nothing when the queue of retained publications does not exist.
    """
    queue = core.registry.by_name(RETAINED_QUEUE)
    if queue is None:
        return
    superseded: list[Found] = []
    low = queue.low
    while rows := core.store.persistent.in_order(low, queue.high, _PAGE):
        for row in rows:
            if row.topic is not None:
                older = _kept(core, row.topic)
                if older is not None:
                    superseded.append(older)
                core.registry.retained[row.topic] = RetainedPlace(row.k, PERSISTENT)
        low = rows[-1].k + 1
    with core.engine_lock:
        core.committer.deferred += [_removal(core, found) for found in superseded]


def _settle(core: Core, topic: str, place: RetainedPlace) -> Transaction | None:
    """Index a publication as the retained one of its topic; return the removal of the previous one.

    Returns None without a previous one. Also returns None,
    and changes nothing, when the new publication expired before its commit (E17).
    """
    if _found(core, place) is None:
        # It expired before its commit (E17): the one retained before stays.
        return None
    older = _kept(core, topic)
    core.registry.retained[topic] = place
    return None if older is None else _removal(core, older)


def _yield_or_settle(core: Core, topic: str, place: RetainedPlace) -> Transaction | None:
    """Index a neighbour's publication as :func:`_settle` does, unless it is outdated.

    Returns the transaction that removes the publication if outdated, else the previous one; None
    when neither exists.
    """
    found = _found(core, place)
    if found is None:
        return None
    row = found[1]
    if is_outdated(core, topic, row.msg_id, unpack_descriptor(row.descriptor)):
        return _removal(core, found)
    return _settle(core, topic, place)


def _forget(core: Core, topic: str, place: RetainedPlace) -> None:
    """Remove a topic from the index unless its entry is no longer ``place``."""
    if core.registry.retained.get(topic) == place:
        del core.registry.retained[topic]


def _kept(core: Core, topic: str) -> Found | None:
    """Return the retained publication of a topic as (queue, row, persistence), None without one.

    A publication that a program has got does not count.
    """
    place = core.registry.retained.get(topic)
    return None if place is None else _found(core, place)


def _found(core: Core, place: RetainedPlace) -> Found | None:
    """Return the retained publication at ``place`` as (queue, row, persistence).

    None when it is gone, or an uncommitted get or another change has hidden it. A browse lock does
    not hide it.
    """
    key, persistence = place
    queue = core.registry.by_name(RETAINED_QUEUE)
    if queue is None or not isinstance(core.hidden.get(key), Requester | None):
        return None
    row = core.messages(persistence).row(key)
    return None if row is None else (queue, row, persistence)


def _removal(core: Core, found: Found) -> Transaction:
    """Return a transaction that removes a retained publication, as cleared or as expired.

    A browse lock on it is released at once.
    """
    row, now_ms = found[1], core.now_ms()
    locker = core.hidden.get(row.k)
    if isinstance(locker, Requester):
        locker.forget_lock(row.k)
    if is_expired(row.expire_at_ms, now_ms):
        return discard_expired(core, [found], now_ms, DetectedBy.TOPIC)
    transaction = Transaction()
    queue_state.end(core, transaction, found, Event.CLEAR, now_ms, terminated_by=NOBODY)
    return transaction


def ask_of_retained(core: Core, topic_string: str, selector: Selector | None) -> SelectorResults:
    """Evaluate a subscription's selector for the retained publications that match a topic string.

    The result holds True or False for each publication; without a selector it is empty. Call it
    without a lock: it takes the engine lock only to read publications, 16 at a time.
    """
    selector_results = SelectorResults()
    if selector is None:
        return selector_results
    with core.engine_lock:
        topics = _topics(core.registry.retained, topic_string)
    for start in range(0, len(topics), _ASKED_AT_A_TIME):
        with core.engine_lock:
            core.check_running()
            now_ms, retained = core.now_ms(), core.registry.retained
            page = topics[start : start + _ASKED_AT_A_TIME]
            found = [_found(core, retained[topic]) for topic in page if topic in retained]
        selects = _asker(selector, now_ms)
        for one in found:
            if one is not None:
                selector_results.note(one[1], takes=selects(one[1]))
    return selector_results


def _asker(selector: Selector, now_ms: int) -> Callable[[StoredMessage], bool]:
    """Return a function that says whether the selector selects a row at the time ``now_ms``."""
    return lambda row: selector.selects(fields_of(row, now_ms))


def _matching(
    core: Core, subscription: Subscription, now_ms: int, selector_results: SelectorResults
) -> Iterator[tuple[str, StoredMessage]]:
    """Yield topic and row of each retained publication that a subscription must get.

    A row whose selector takes long is added to ``selector_results.unevaluated`` instead. An
    expired publication is removed from the index, unless it is locked.
    """
    selector = subscription.selector
    for topic in _topics(core.registry.retained, subscription.topic):
        found = _found(core, core.registry.retained[topic])
        if found is None:
            continue
        row = found[1]
        if row.only_here and is_proxy(subscription):
            continue
        if is_expired(row.expire_at_ms, now_ms):
            # A locked one is left alone (X9).
            if row.k not in core.hidden:
                del core.registry.retained[topic]
                core.committer.deferred.append(_removal(core, found))
            continue
        if selector is not None:
            is_taken = selector_results.of(row)
            if is_taken is None and is_long(selector, row):
                selector_results.unevaluated.append(row)
                continue
            if is_taken is None:
                is_taken = selector.selects(fields_of(row, now_ms))
            if not is_taken:
                continue
        yield topic, row


def _topics(retained: dict[str, RetainedPlace], topic_string: str) -> list[str]:
    """Return the topics with a retained publication that match a topic string with wildcards.

    The list is empty when none matches.
    """
    if not has_wildcards(topic_string):
        return [topic_string] if topic_string in retained else []
    levels = levels_of(topic_string)
    return [topic for topic in retained if matches(levels, levels_of(topic))]


def _add_copy(
    core: Core, transaction: Transaction, subscription: Subscription, topic: str, row: StoredMessage
) -> None:
    """Add to a transaction the put of a retained publication's copy for a subscription.

    A proxy subscription gets it in an MQRFH2 envelope. Raises the reasons of a put, such as
    MQRC_Q_FULL.
    """
    path = core.registry.resolve_target(subscription.destination)
    publication, body = prepared_with_own_context(core, unpack_descriptor(row.descriptor)), row.body
    if is_proxy(subscription):
        journey = Journey((core.name,), is_retained=True, only_for=subscription.topic)
        publication, body = enveloped(publication, body, topic, journey)
    prepared = prepared_for(core, subscription, path, publication)
    check_capacity(path, prepared, len(body))
    now_ms = core.now_ms()
    window = Window(now_ms, now_ms, row.expire_at_ms, row.capped_by)
    window = capped_from(window, now_ms, path.cap_ms, path.capped_by)
    correl_id = row.correl_id if subscription.correl_id is None else subscription.correl_id
    ids = MessageIds(row.msg_id, correl_id)
    copy = new_row(core, path, OutgoingMessage(prepared, window, ids, body))
    arrive(core, transaction, path, prepared, copy._replace(topic=topic))


class PublishResult(NamedTuple):
    """The outcome of a publication.

    ``matched_count`` subscriptions matched. ``delivered_count`` of them have a copy, or will have
    it after the delay; a copy on the dead-letter queue counts. ``warning`` is 0 or a reason code.
    """

    msg_id: bytes
    descriptor: Descriptor
    window: Window
    matched_count: int
    delivered_count: int
    warning: int


def publish(
    core: Core,
    topic: str,
    body: bytes,
    request: PutRequest,
    *,
    context: Context,
    unit_of_work: UnitOfWork | None,
    retains: bool = False,
    connection: object = None,
    not_own: bool = False,
    only_here: bool = False,
    alias: QueueDefinition | None = None,
    journey: Journey = HERE,
    completion: Completion | None = None,
) -> PublishResult:
    """Publish a message to all subscriptions that match the topic now.

    In a unit of work the copies become visible at its commit; ``unit_of_work`` None makes them
    visible at once. All copies have one MsgId. With ``retains`` the publication is kept for later
    subscribers; an empty body then removes the kept one. With a delay, the subscriptions that match
    now get their copies when the delay is over.

    ``context`` is the user and program that publish, ``connection`` identifies the publisher. With
    ``not_own`` its own subscriptions get no copy, with ``only_here`` no other queue manager does.
    The attributes of a queue ``alias`` override those of the topic. ``journey`` lists the queue
    managers that a neighbour's publication has visited. With ``completion``, a transaction that
    needs the disk is stored there, and the caller runs it.

    After an error nothing is put, staged or retained. Raises MQRC_PUBLICATION_FAILURE when a copy
    fails that PMSGDLV or NPMSGDLV demands, and for a delay unless that attribute is ALLAVAIL.
    Raises MQRC_OPTIONS_ERROR for a delay with ``retains``, MQRC_TOPIC_STRING_ERROR,
    MQRC_PUT_INHIBITED, MQRC_PUT_NOT_RETAINED, and the reasons of a put.
    """
    check_topic_string(topic, wildcards=False)
    if retains and request.delay_ms:
        raise mq_error(rc.MQRC_OPTIONS_ERROR, "delay_ms: a retained publication has none")
    if retains and body:
        ensure_retained_queue(core)
    selected: dict[Selector, bool] = {}
    is_evaluated = False
    while not is_evaluated:
        with core.engine_lock:
            core.check_running()
            if unit_of_work is not None:
                unit_of_work.check_capacity()
            fan_out = _FanOut(
                core,
                topic,
                request,
                body,
                context,
                retains=retains,
                is_in_unit=unit_of_work is not None,
                connection=connection,
                not_own=not_own,
                only_here=only_here,
                alias=alias,
                journey=journey,
                selected=selected,
            )
            unevaluated = fan_out.unevaluated()
            is_evaluated = not unevaluated
            if is_evaluated:
                transaction = fan_out.run()
                if unit_of_work is not None:
                    unit_of_work.publish(transaction, fan_out.staged, fan_out.effects)
                else:
                    fan_out.finish()
                is_done = unit_of_work is not None or core.committer.run_at_once(transaction)
        if unevaluated:
            # Without the lock; then again from the start with the id that they have seen.
            fields = fan_out.fields()
            selected.update((selector, selector.selects(fields)) for selector in unevaluated)
            request = request._replace(msg_id=fan_out.msg_id)
    if is_done:
        core.committer.run_deferred()
    elif completion is None:
        core.committer.run(transaction)
    else:
        completion.transaction = transaction
    return fan_out.result()


class _FanOut:
    """The delivery of one publication to its subscribers; its caller holds the engine lock."""

    def __init__(
        self,
        core: Core,
        topic: str,
        request: PutRequest,
        body: bytes,
        context: Context,
        *,
        retains: bool,
        is_in_unit: bool,
        connection: object,
        not_own: bool,
        only_here: bool,
        alias: QueueDefinition | None,
        journey: Journey,
        selected: Mapping[Selector, bool],
    ) -> None:
        """Check the publication and compute its descriptor, window and MsgId; nothing is put yet.

        ``connection`` is the publisher's, for subscriptions that ignore their publisher.
        ``selected`` maps selectors to results evaluated earlier without the lock; the others are
        evaluated during delivery. With ``is_in_unit``, delayed copies count in the depth of the
        staging queue only at the commit. The other parameters are those of :func:`publish`. Raises
        MQRC_PUT_INHIBITED and the other errors of :func:`publish` that do not concern one copy.
        """
        assert core.engine_lock.is_held()
        self._core, self._topic, self._request, self._body = core, topic, request, body
        self._retains, self._is_in_unit, self._connection = retains, is_in_unit, connection
        self._not_own, self._only_here, self._journey = not_own, only_here, journey
        self._selected = selected
        values = core.registry.topics.values(topic)
        self._values = values = values if alias is None else through_alias(alias, values)
        if values.publish_inhibited:
            raise mq_error(rc.MQRC_PUT_INHIBITED, f"PUB(DISABLED) for {topic!r}")
        defaults = values.default_priority, values.default_persistence
        self._prepared = prepare(request.descriptor, *defaults, context, request.context_option)
        if self._prepared.checks_header:
            check_header(self._prepared.descriptor, body)
        self._now_ms = now_ms = core.now_ms()
        self._window = window_at_put(
            now_ms,
            request.life_ms,
            request.delay_ms,
            values.cap_ms,
            longest_ms=core.settings.longest_life_ms,
            capped_by=values.capped_by,
        )
        #: The subscriptions that it must reach, MQDLV_*, by its persistence.
        self._promise = (
            values.persistent_delivery if self._prepared.persistent else values.volatile_delivery
        )
        self._check_kind()
        self.msg_id = request.msg_id or new_id(core)
        self._rows = CopyRows(core, topic, self.msg_id)
        self._matched_count = self._missed_count = 0
        self.transaction = Transaction()
        self.staged: list[UncommittedPut] = []
        self.effects: list[Callable[[], Transaction | None]] = []
        self._neighbours: set[str] = set()
        #: The subscriptions that get a copy, at once or after the delay.
        self._reached: list[Subscription] = []
        #: Copies on queues here; those that travel are confirmed where they arrive.
        self._arrived: list[StoredMessage] = []

    def _check_kind(self) -> None:
        """Check length, delay and message flags of the publication.

        Raises MQRC_MSG_TOO_BIG_FOR_Q_MGR, MQRC_MSG_NOT_ALLOWED_IN_GROUP for a message of a group or
        a segment, and for a delay MQRC_PUBLICATION_FAILURE or the errors of ``check_delay``.
        """
        descriptor = self._prepared.descriptor
        largest = self._core.registry.queue_manager.maxmsgl
        if len(self._body) > largest:
            raise mq_error(
                rc.MQRC_MSG_TOO_BIG_FOR_Q_MGR, f"{len(self._body)} bytes; MAXMSGL({largest})"
            )
        if self._request.delay_ms:
            check_delay(self._core, descriptor, self._body)
            if self._promise != c.MQDLV_ALL_AVAIL:
                raise mq_error(
                    rc.MQRC_PUBLICATION_FAILURE,
                    f"{self._topic!r} must say ALLAVAIL for a delayed publication",
                )
        if descriptor.msg_flags & (IN_GROUP | IN_SEGMENTS):
            raise mq_error(
                rc.MQRC_MSG_NOT_ALLOWED_IN_GROUP,
                "a publication is neither in a group nor a segment",
            )

    def unevaluated(self) -> list[Selector]:
        """Return the selectors to evaluate without the engine lock, because all together take long.

        Each occurs once: subscriptions with equal selector texts share one selector. The list is
        empty when evaluation is quick, or has been done.
        """
        subscriptions = self._core.registry.subscriptions
        work = subscriptions.selector_work(self._topic)
        # A body is longer than its header; of most publications the fields need not be read.
        if work * (FIXED_SIZE + len(self._topic) + len(self._body)) <= TURN_WORK:
            return []
        if work * self.fields().size <= TURN_WORK:
            return []
        found = {one.selector: None for one in subscriptions.matching(self._topic)}
        return [one for one in found if one is not None and one not in self._selected]

    def run(self) -> Transaction:
        """Make the copies for all matching subscriptions, and retain the publication if requested.

        Return the transaction with the copies, which the caller runs. An outdated retained
        publication from a neighbour reaches no subscriber: the transaction is empty. Raises
        MQRC_PUBLICATION_FAILURE, MQRC_PUT_NOT_RETAINED or the error of a delayed copy; all copies
        are then withdrawn.
        """
        if self._journey.only_for and is_outdated(
            self._core, self._topic, self.msg_id, self._prepared.descriptor
        ):
            return self.transaction
        try:
            self._deliver()
            if self._retains:
                self._retain()
        except MQError:
            self._take_back()
            raise
        for subscription in self._reached:
            subscription.count_copies(1, self._now_ms)
        return self.transaction

    def _deliver(self) -> None:
        """Make a copy for each subscription that matches, and the COA reports asked for.

        A copy that its queue refuses is dead-lettered or counted as missed. Raises
        MQRC_PUBLICATION_FAILURE when PMSGDLV or NPMSGDLV demands that copy.
        """
        fields: SelectorFields | None = None
        selected = self._selected
        for subscription in self._core.registry.subscriptions.matching(self._topic):
            is_over = is_expired(subscription.expire_at_ms, self._now_ms)
            if (
                is_over
                or subscription.skips_publisher(self._connection)
                or self._is_late_for(subscription)
            ):
                continue
            if self._not_own and subscription.is_of(self._connection):
                continue
            selector = subscription.selector
            if selector is not None:
                fields = fields or self.fields()
                is_selected = selected.get(selector)
                if is_selected is None:
                    is_selected = selector.selects(fields)
                if not is_selected:
                    continue
            if is_proxy(subscription) and not self._leaves_for(neighbour_of(subscription)):
                continue
            self._matched_count += 1
            if self._request.delay_ms:
                self._stage(subscription)
                continue
            try:
                self._copy(subscription)
            except MQError as failure:
                self._miss(subscription, failure)
        if self._prepared.descriptor.report & c.MQRO_COA and not self._request.delay_ms:
            self._confirm_arrivals()

    def _is_late_for(self, subscription: Subscription) -> bool:
        """Return True if the publication is for new subscribers only and this one is old.

        This concerns retained publications from a neighbour: only subscriptions with the topic
        string ``only_for`` that take retained publications get them.
        """
        only_for = self._journey.only_for
        return bool(only_for) and not (
            subscription.topic == only_for and subscription.takes_retained
        )

    def _retain(self) -> None:
        """Prepare to retain the publication; an empty body removes the retained one.

        The change is an effect that happens at the commit. Raises MQRC_PUT_NOT_RETAINED when the
        queue of retained publications refuses it.
        """
        if self._body:
            ids = MessageIds(self.msg_id, self._request.correl_id)
            message = OutgoingMessage(self._prepared, self._window, ids, self._body)
            effect = retain(
                self._core,
                self.transaction,
                self._topic,
                message,
                yields=bool(self._journey.only_for),
                only_here=self._only_here,
            )
            self.effects.append(effect)
        else:
            self.effects.append(partial(end_retained, self._core, self._topic))

    def _take_back(self) -> None:
        """Undo the changes of queue depths that the copies made so far have caused."""
        queue_state.withdraw_all(self.transaction)
        for pending in self.staged:
            if self._is_in_unit:
                queue_state.withdraw_from_unit(pending.queue)
            else:
                queue_state.withdraw(pending.queue)

    def finish(self) -> None:
        """Add the delayed copies and the retain effects to the transaction.

        It is for publications outside a unit of work; in one, the unit of work does this.
        """
        core, transaction = self._core, self.transaction
        queue_state.add_all_reserved(core, transaction, self.staged)
        transaction.effects.extend(self.effects)

    def result(self) -> PublishResult:
        """Return the outcome of the publication with its counts; call it after :meth:`run`."""
        matched = self._matched_count
        return PublishResult(
            self.msg_id,
            self._prepared.descriptor,
            self._window,
            matched,
            matched - self._missed_count,
            self._prepared.warning,
        )

    def _leaves_for(self, neighbour: str) -> bool:
        """Return True if the publication must still be sent to a neighbour; note it as sent.

        False the second time for a neighbour (D25), with ``only_here``, or with PSMODE other than
        ENABLED.
        """
        is_connected = self._core.registry.queue_manager.psmode == c.MQPSM_ENABLED
        if self._only_here or neighbour in self._neighbours or not is_connected:
            return False
        self._neighbours.add(neighbour)
        return True

    def _copy(self, subscription: Subscription) -> None:
        """Put a copy on the queue of a subscription, in the transaction.

        Raises the reasons of a put, such as MQRC_Q_FULL or MQRC_UNKNOWN_OBJECT_NAME.
        """
        core = self._core
        publication, body = self._content_for(subscription)
        path = core.registry.resolve_target(subscription.destination)
        prepared = prepared_for(core, subscription, path, publication)
        check_capacity(path, prepared, len(body))
        # The lowest of all caps wins (X3).
        window = capped_from(self._window, self._now_ms, path.cap_ms, path.capped_by)
        row = self._rows.row(path, prepared, window, self._correl_id(subscription), body)
        arrive(core, self.transaction, path, prepared, row)
        self._reached.append(subscription)
        if path.remote is None:
            self._arrived.append(row)

    def _content_for(self, subscription: Subscription) -> tuple[Prepared, bytes]:
        """Return descriptor and data of a copy, for a proxy subscription in an MQRFH2 envelope."""
        if not is_proxy(subscription):
            return self._prepared, self._body
        visited = (*self._journey.visited, self._core.name)
        journey = self._journey._replace(visited=visited, is_retained=self._retains)
        return enveloped(self._prepared, self._body, self._topic, journey)

    def _stage(self, subscription: Subscription) -> None:
        """Reserve a place on the staging queue for a delayed copy, and add the copy to ``staged``.

        Raises the errors of ``staging_path`` when the staging queue refuses the copy.
        """
        copy = self._copy_for(subscription)
        pending = staged_copy(self._core, subscription, self._topic, copy)
        if self._is_in_unit:
            queue_state.reserve_in_unit(pending.queue)
        else:
            queue_state.reserve(pending.queue)
        self.staged.append(pending)
        self._reached.append(subscription)

    def _copy_for(self, subscription: Subscription) -> OutgoingMessage:
        """Return a subscription's copy, without the attributes and limits of its queue."""
        prepared, body = self._content_for(subscription)
        ids = MessageIds(self.msg_id, self._correl_id(subscription))
        return OutgoingMessage(prepared, self._window, ids, body)

    def _correl_id(self, subscription: Subscription) -> bytes:
        """Return the CorrelId of a copy: the subscription's, or else the publisher's."""
        correl_id = subscription.correl_id
        return self._request.correl_id if correl_id is None else correl_id

    def _miss(self, subscription: Subscription, failure: MQError) -> None:
        """Put a refused copy on the dead-letter queue, or count it as not delivered.

        ``failure`` is the error of its put. USEDLQ of the topic decides about the dead-letter
        queue. Raises MQRC_PUBLICATION_FAILURE when the copy is not dead-lettered and PMSGDLV or
        NPMSGDLV demands its delivery.
        """
        core, descriptor = self._core, self._prepared.descriptor
        if self._values.uses_dead_letters and core.registry.queue_manager.deadq:
            copy = self._copy_for(subscription)
            try:
                dead_letter(core, self.transaction, copy, failure.reason, subscription.destination)
            except MQError:
                pass
            else:
                return
        self._missed_count += 1
        is_promised = subscription.is_durable or self._promise == c.MQDLV_ALL
        if self._promise != c.MQDLV_ALL_AVAIL and is_promised:
            raise mq_error(
                rc.MQRC_PUBLICATION_FAILURE,
                f"{subscription!r} is not reached, persistence {descriptor.persistence}: {failure}",
            ) from failure

    def _confirm_arrivals(self) -> None:
        """Add a COA report to the transaction for each copy on a queue of this queue manager.

        Does nothing when the descriptor asks for no COA report.
        """
        descriptor = self._prepared.descriptor
        if not is_owed(Cause.COA, descriptor):
            return
        for row in self._arrived:
            left_ms = remaining_ms(row.expire_at_ms, self._now_ms)
            original = Original(descriptor, row.msg_id, row.correl_id, row.body, left_ms)
            send_report(self._core, self.transaction, Cause.COA, original)

    def fields(self) -> SelectorFields:
        """Return the publication as its publisher made it, as the fields that selectors read."""
        row = StoredMessage(
            0,
            self._now_ms,
            None,
            self._window.expire_at_ms,
            None,
            None,
            0,
            self.msg_id,
            self._request.correl_id,
            None,
            self._prepared.packed,
            self._body,
            self._topic,
        )
        return SelectorFields(row, self._prepared.descriptor, self._now_ms)


def behind_alias(registry: Registry, name: str) -> tuple[QueueDefinition, str]:
    """Return the definition of a queue alias, and the topic string of the topic object it names.

    Raises MQRC_Q_DELETED when no such alias of a topic exists, and MQRC_UNKNOWN_ALIAS_BASE_Q when
    its topic object is not defined.
    """
    alias = topic_alias(registry, name)
    if alias is None:
        raise mq_error(rc.MQRC_Q_DELETED, f"{name} was deleted, or is no alias of a topic any more")
    target = alias.target
    definition = registry.topics.find(target)
    if definition is None:
        raise mq_error(
            rc.MQRC_UNKNOWN_ALIAS_BASE_Q, f"alias {name}: topic {target!r} is not defined"
        )
    return alias, definition.topicstr


def through_alias(alias: QueueDefinition, values: TopicValues) -> TopicValues:
    """Return the topic attributes for a publication through a queue alias.

    The alias sets default priority and persistence (P7). The lower CAPEXPRY limit of alias and
    topic applies (X3). Raises MQRC_PUT_INHIBITED when the alias has PUT(DISABLED).
    """
    if alias.put == c.MQQA_PUT_INHIBITED:
        raise mq_error(rc.MQRC_PUT_INHIBITED, f"PUT(DISABLED) for alias {alias.name}")
    if alias.cap_tenths != c.MQCEX_NOLIMIT:
        cap_ms = ms_of_tenths(alias.cap_tenths)
        if values.cap_ms is None or cap_ms < values.cap_ms:
            values = values._replace(cap_ms=cap_ms, capped_by=alias.cap_text)
    return values._replace(
        default_priority=alias.defprty,
        default_persistence=alias.defpsist,
    )
