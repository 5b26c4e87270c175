"""Retained publications: the last one of each topic, kept for later subscribers.

They are messages on SYSTEM.RETAINED.PUB.QUEUE, one for each topic string, and may expire there. The
row holds the topic string. The first retained publication creates the queue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from mayfly.engine import queue_state
from mayfly.engine.attributes import LARGEST, LONGEST_MESSAGE_BYTES, QLOCAL, QueueDefinition
from mayfly.engine.core import Core
from mayfly.engine.delivery import (
    MessageIds,
    OutgoingMessage,
    arrive,
    check_capacity,
    check_open,
    new_row,
)
from mayfly.engine.disposal import prepared_with_own_context
from mayfly.engine.expiry import discard_expired
from mayfly.engine.finding.search import fields_of
from mayfly.engine.finding.selecting import SelectorResults, is_long
from mayfly.engine.objects.administration import enter_queue
from mayfly.engine.pubsub.copies import prepared_for
from mayfly.engine.pubsub.proxies import Journey, enveloped, is_proxy
from mayfly.engine.pubsub.subscriptions import Subscription
from mayfly.engine.pubsub.topics import RetainedPlace
from mayfly.engine.queues import PERSISTENT, VOLATILE, Found
from mayfly.engine.requester import Requester
from mayfly.engine.transaction import Transaction
from mayfly.lifetime.life import Event
from mayfly.lifetime.moments import is_expired
from mayfly.lifetime.times import put_date, put_time
from mayfly.lifetime.window import Window, capped_from
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQMDS_FIFO
from mayfly.mqi.descriptor import Descriptor, unpack_descriptor
from mayfly.mqi.errors import MQError, mq_error
from mayfly.store.units import StoredMessage
from mayfly.verbs.contracts.outcomes import NOBODY, DetectedBy
from mayfly.verbs.properties.selectors.selector import Selector
from mayfly.verbs.topic_strings import has_wildcards, levels_of, matches

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
