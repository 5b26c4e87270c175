"""Defines, alters and deletes topic objects and subscriptions, with their managed queues."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from copy import copy
from functools import cache

from mayfly.engine.attributes import (
    LARGEST,
    MANAGED_DESTINATION,
    QMODEL,
    SUB,
    TOPIC,
    QueueDefinition,
    SubscriptionDefinition,
    TopicDefinition,
)
from mayfly.engine.core import Core
from mayfly.engine.delivery import new_id
from mayfly.engine.finding.next_live import SelectorResults
from mayfly.engine.objects.administration import (
    create_dynamic_queue,
    delete_queue,
    enter_at_opening,
    erase,
    save,
    saving_prototype,
)
from mayfly.engine.pubsub.publish import deliver_retained
from mayfly.engine.pubsub.topics import (
    BASE_TOPIC,
    BASE_VALUES,
    DEFAULT_TOPIC,
    DURABLE_MODEL,
    ID_BYTES,
    NON_DURABLE_MODEL,
    PASSED_ON,
    Subscription,
    destination_of,
)
from mayfly.engine.queues import LocalQueue
from mayfly.engine.transaction import Transaction
from mayfly.lifetime.times import ms_of_tenths
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error
from mayfly.verbs.checks import check_name
from mayfly.verbs.facts import Value
from mayfly.verbs.topic_strings import check_topic_string

_LOG = logging.getLogger("mayfly.topics")
_DURABLE_QUEUES, _NON_DURABLE_QUEUES = "SYSTEM.MANAGED.DURABLE.", "SYSTEM.MANAGED.NDURABLE."
_LONGEST_NAME = 10_240
#: Attributes that ALTER SUB may change; topic, class and selector stay as they were defined.
CHANGEABLE = frozenset(
    {
        "DEST",
        "DESTCORL",
        "DESTQMGR",
        "EXPIRY",
        "PUBPRTY",
        "REQONLY",
        "SUBUSER",
        "USERDATA",
        "VARUSER",
    }
)
_MODELS = {
    DURABLE_MODEL: c.MQQDT_PERMANENT_DYNAMIC,
    NON_DURABLE_MODEL: c.MQQDT_TEMPORARY_DYNAMIC,
}


def define_topic(
    core: Core, name: str, attributes: Mapping[str, Value], *, replace: bool = False
) -> None:
    """Define a topic object on disk and in the topic tree; attributes left out are ASPARENT.

    With ``replace``, an existing object gets the attributes in ``attributes`` and the defaults for
    all others, but keeps its topic string.

    Raises MQRC_OBJECT_NAME_ERROR for an invalid name and MQRC_TOPIC_STRING_ERROR for an invalid or
    changed topic string. Raises MQRC_OBJECT_ALREADY_EXISTS when another topic object has the topic
    string, or when the name exists and ``replace`` is False.
    """
    check_name(name)
    core.check_running()
    definition = TopicDefinition(TOPIC, name).altered(attributes)
    with core.definitions_lock:
        tree = core.registry.topics
        existing = tree.find(name)
        if existing is not None:
            if not replace:
                raise mq_error(rc.MQRC_OBJECT_ALREADY_EXISTS, f"topic {name} exists")
            if "TOPICSTR" not in attributes:
                definition.topicstr = existing.topicstr
            _change_topic(core, existing, definition)
            return
        topic = definition.topicstr
        if name not in (BASE_TOPIC, DEFAULT_TOPIC):
            check_topic_string(topic, wildcards=False)
            other = tree.at(topic)
            if other is not None:
                raise mq_error(
                    rc.MQRC_OBJECT_ALREADY_EXISTS, f"topic {other.name} stands for {topic!r}"
                )
        _enter_topic(core, definition)


def alter_topic(core: Core, name: str, attributes: Mapping[str, Value]) -> None:
    """Change attributes of a topic object on disk and in memory; other attributes stay.

    Later publications and subscriptions use the new values. Raises MQRC_UNKNOWN_OBJECT_NAME when
    the object is not defined, and MQRC_TOPIC_STRING_ERROR when TOPICSTR would change.
    """
    core.check_running()
    with core.definitions_lock:
        definition = _find_topic(core, name)
        _change_topic(core, definition, definition.altered(attributes))


def delete_topic(core: Core, name: str) -> None:
    """Delete a topic object from disk and from the topic tree.

    Its topic string then inherits its attributes from the next topic object above it in the tree.
    Subscriptions and retained publications stay. Raises MQRC_UNKNOWN_OBJECT_NAME when the object is
    not defined.
    """
    core.check_running()
    with core.definitions_lock:
        definition = _find_topic(core, name)
        erase(core, definition)
        with core.engine_lock:
            core.registry.topics.remove(name)


def set_up_topics(core: Core, opening: Transaction) -> None:
    """Define the system topic objects and the model queues for managed queues, where missing.

    Does nothing when any topic object is defined already. ``opening`` stores them.
    """
    if core.registry.topics.definitions():
        return
    models, topics = _system_topics()
    with core.engine_lock:
        for topic in topics:
            core.registry.topics.add(copy(topic))
    enter_at_opening(core, models, opening)
    opening.unit.statements.extend(saving_prototype(topic, 0) for topic in topics)


@cache
def _system_topics() -> tuple[tuple[QueueDefinition, ...], tuple[TopicDefinition, ...]]:
    """Return the prototypes of the model queues and of the topic objects."""
    models = [QueueDefinition(QMODEL, n, deftype=k, maxdepth=LARGEST) for n, k in _MODELS.items()]
    base = TopicDefinition(TOPIC, BASE_TOPIC).altered(BASE_VALUES)
    return tuple(models), (TopicDefinition(TOPIC, DEFAULT_TOPIC), base)


def _find_topic(core: Core, name: str) -> TopicDefinition:
    """Return a topic object by name; raises MQRC_UNKNOWN_OBJECT_NAME when it is not defined."""
    definition = core.registry.topics.find(name)
    if definition is None:
        raise mq_error(rc.MQRC_UNKNOWN_OBJECT_NAME, f"topic {name} is not defined")
    return definition


def _change_topic(core: Core, definition: TopicDefinition, changed: TopicDefinition) -> None:
    """Replace a topic object by ``changed``, on disk and in the topic tree.

    Raises MQRC_TOPIC_STRING_ERROR, and changes nothing, when ``changed`` has another topic string.
    """
    topic = definition.topicstr
    if changed.topicstr != topic:
        raise mq_error(rc.MQRC_TOPIC_STRING_ERROR, f"{definition.name} stands for {topic!r}")
    _enter_topic(core, changed)


def _enter_topic(core: Core, definition: TopicDefinition) -> None:
    """Save a topic object on disk, then add it to the topic tree or replace it there."""
    save(core, definition, 0)
    with core.engine_lock:
        core.registry.topics.add(definition)


def define_subscription(
    core: Core, name: str, attributes: Mapping[str, Value], *, replace: bool = False
) -> None:
    """Define an administrative subscription (DEFINE SUB): durable, and open in no session.

    With ``replace``, an existing subscription is altered: attributes not in ``attributes`` stay.
    Raises MQRC_SUB_NAME_ERROR for an invalid name, MQRC_SUB_ALREADY_EXISTS for an existing one
    without ``replace``, and the errors of :func:`create_subscription` and
    :func:`alter_subscription`.
    """
    with core.definitions_lock:
        if replace and core.registry.subscriptions.find(name) is not None:
            alter_subscription(core, name, attributes)
            return
        definition = SubscriptionDefinition(SUB, name).altered(attributes)
        create_subscription(core, definition, is_durable=True)


def create_subscription(
    core: Core,
    definition: SubscriptionDefinition,
    *,
    is_durable: bool,
    life_ms: int | None = None,
    takes_retained: bool = True,
    replaced: Subscription | None = None,
    selector_results: SelectorResults | None = None,
) -> Subscription:
    """Create a subscription and put the matching retained publications on its queue.

    Return the new subscription. With ``is_durable`` it is on disk by then, and outlives its
    session. It expires ``life_ms`` from now; None means the EXPIRY of the definition.
    ``takes_retained`` False delivers no retained publications. ``selector_results`` are results for
    retained publications, computed earlier by a caller that now holds a lock; None evaluates the
    selector here. ``replaced`` is an existing subscription of the same name, removed with its
    managed queue in the same step. After an error nothing is created, and ``replaced`` stays.

    Raises MQRC_SUB_NAME_ERROR, MQRC_SUB_ALREADY_EXISTS, MQRC_TOPIC_STRING_ERROR,
    MQRC_SUB_INHIBITED, MQRC_DURABILITY_NOT_ALLOWED, and MQRC_SUBSCRIPTION_IN_USE when ``replaced``
    is open. Raises MQRC_UNKNOWN_OBJECT_NAME for an unknown topic object, queue or model queue, and
    MQRC_OPTIONS_ERROR when DEST does not fit DESTCLAS or DESTCORL is invalid. Raises
    MQRC_SELECTOR_SYNTAX_ERROR or another MQRC_SELECTOR_… for an invalid selector.
    """
    core.check_running()
    with core.definitions_lock:
        _check_subscription(core, definition, is_durable=is_durable, replaced=replaced)
        with core.engine_lock:
            definition.sub_id = new_id(core).hex()
        _begin_life(core, definition, life_ms)
        subscription = Subscription(definition, is_durable=is_durable)
        try:
            if subscription.is_managed:
                _make_queue(core, subscription)
            if is_durable:
                save(core, definition, 0)
            with core.engine_lock:
                _enter_subscription(core, subscription, replaced)
            if takes_retained and not subscription.on_request:
                deliver_retained(core, subscription, selector_results)
        except MQError:
            if replaced is None:
                undo_subscription(core, subscription)
            else:
                _put_back(core, subscription, replaced)
            raise
        drop_doomed(core)
    core.committer.run_deferred()
    return subscription


def _enter_subscription(
    core: Core, subscription: Subscription, replaced: Subscription | None
) -> None:
    """Add a subscription in memory, in place of ``replaced``; the caller holds the engine lock.

    Raises MQRC_SUBSCRIPTION_IN_USE when ``replaced`` is open.
    """
    if replaced is not None:
        if replaced.holds:
            raise mq_error(rc.MQRC_SUBSCRIPTION_IN_USE, f"{replaced!r} is open elsewhere")
        forget_subscription(core, replaced)
    core.registry.subscriptions.add(subscription)
    core.must_wake = True


def _put_back(core: Core, subscription: Subscription, replaced: Subscription) -> None:
    """Restore ``replaced``, on disk and in memory, after its replacement ``subscription`` failed.

    Removes ``subscription`` from memory and marks its managed queue for deletion. A disk error is
    only logged.
    """
    try:
        save(core, replaced.definition, 0)
    except MQError as error:
        # A full disk: after a restart it may be the new one.
        _LOG.error("putting back %r: %s", replaced, error)
    with core.engine_lock:
        subscriptions = core.registry.subscriptions
        forget_subscription(core, subscription)
        subscriptions.add(replaced)
        subscriptions.doomed = [q for q in subscriptions.doomed if q.name != replaced.destination]
    drop_doomed(core)


def alter_subscription(core: Core, name: str, attributes: Mapping[str, Value]) -> None:
    """Change attributes of a subscription found by its name, on disk (if durable) and in memory.

    A new EXPIRY counts from now; attributes not in ``attributes`` stay. Raises MQRC_NO_SUBSCRIPTION
    when the name is unknown or the subscription has expired. Raises MQRC_OPTIONS_ERROR for an
    attribute that ALTER SUB may not change, and MQRC_UNKNOWN_OBJECT_NAME for an unknown queue.
    """
    core.check_running()
    with core.definitions_lock:
        subscription = core.registry.subscriptions.named(name)
        old = subscription.definition
        before = old.attributes
        unchanging = before.keys() - CHANGEABLE
        fixed = {k for k, v in attributes.items() if k in unchanging and before[k] != v}
        if subscription.is_managed:
            fixed |= {"DEST", "DESTQMGR"} & attributes.keys()
        if fixed:
            raise mq_error(
                rc.MQRC_OPTIONS_ERROR,
                f"subscription {name}: {', '.join(sorted(fixed))} cannot be changed",
            )
        changed = old.altered(attributes)
        _check_correlation(changed)
        core.registry.resolve_target(destination_of(changed))
        if "EXPIRY" in attributes:
            _begin_life(core, changed)
        if subscription.is_durable:
            save(core, changed, 0)
        with core.engine_lock:
            subscriptions = core.registry.subscriptions
            if subscriptions.by_id(subscription.sub_id) is None:
                # It has expired since.
                subscriptions.ended.append(changed)
                raise mq_error(rc.MQRC_NO_SUBSCRIPTION, f"subscription {name!r}")
            subscription.take(changed)
            subscriptions.note_end(subscription)
            core.must_wake = True
    core.committer.run_deferred()


def delete_subscription(core: Core, name: str) -> None:
    """Remove a subscription by its name, on disk and in memory, with its managed queue.

    Raises MQRC_NO_SUBSCRIPTION when the name is unknown, and MQRC_SUBSCRIPTION_IN_USE while a
    session has the subscription open.
    """
    core.check_running()
    with core.definitions_lock:
        subscription = core.registry.subscriptions.named(name)
        if subscription.holds:
            raise mq_error(rc.MQRC_SUBSCRIPTION_IN_USE, f"subscription {name!r}")
        remove_subscription(core, subscription)


def remove_subscription(core: Core, subscription: Subscription) -> None:
    """Remove a subscription, first on disk, then in memory, even while sessions have it open.

    Also deletes its managed queue, or marks that queue for deletion while the queue is in use.
    """
    with core.definitions_lock:
        if subscription.is_durable:
            erase(core, subscription.definition)
        with core.engine_lock:
            forget_subscription(core, subscription)
    drop_doomed(core)
    core.committer.run_deferred()


def forget_subscription(core: Core, subscription: Subscription) -> None:
    """Remove a subscription from memory and mark its managed queue for deletion.

    The caller holds the engine lock. :func:`drop_doomed` deletes the queue later, without that
    lock.
    """
    assert core.engine_lock.is_held()
    subscriptions = core.registry.subscriptions
    subscriptions.remove(subscription)
    core.must_wake = True
    subscription.holds.clear()
    if subscription.is_managed:
        queue = core.registry.by_name(subscription.destination)
        if queue is not None and queue not in subscriptions.doomed:
            subscriptions.doomed.append(queue)


def drop_doomed(core: Core, *, waits: bool = True) -> None:
    """Delete expired subscriptions from disk, and the managed queues that are marked for deletion.

    Queues still in use stay marked. A deletion that fails is logged and tried again at the next
    call. With ``waits`` False, does nothing while another thread changes definitions.
    """
    subscriptions = core.registry.subscriptions
    if not (subscriptions.doomed or subscriptions.ended):
        return
    if not core.definitions_lock.acquire(blocking=waits):
        return
    try:
        with core.engine_lock:
            ended, subscriptions.ended = subscriptions.ended, []
            doomed, subscriptions.doomed = subscriptions.doomed, []
        for definition in ended:
            try:
                # A new one of its name has taken its place on the disk.
                if subscriptions.find(definition.name) is None:
                    erase(core, definition)
            except MQError as error:
                _LOG.error("subscription %s has expired: %s", definition.name, error)
                subscriptions.ended.append(definition)
        for queue in doomed:
            _drop_queue(core, queue)
    finally:
        core.definitions_lock.release()


def end_expired(core: Core) -> None:
    """Remove the subscriptions that have expired, in memory now and on disk if possible.

    It never waits for the definitions lock: the thread that holds that lock may wait for the thread
    that advances the clock, which calls this function. A row left on disk is removed by a later
    call, or after the next restart.
    """
    with core.engine_lock:
        subscriptions = core.registry.subscriptions
        for subscription in subscriptions.expired(core.now_ms()):
            if subscription.is_durable:
                subscriptions.ended.append(subscription.definition)
            forget_subscription(core, subscription)
    drop_doomed(core, waits=False)


def _drop_queue(core: Core, queue: LocalQueue) -> None:
    """Delete a managed queue with its messages; does nothing when the queue is already deleted.

    When the deletion fails, for example with MQRC_OBJECT_IN_USE, the error is logged and the queue
    stays marked for deletion.
    """
    if core.registry.by_name(queue.name) is not queue:
        return
    try:
        delete_queue(core, queue, purge=True)
    except MQError as error:
        # Mostly its handle is still open, or a unit of work has a copy on it: nothing is wrong.
        level = logging.DEBUG if error.reason == rc.MQRC_OBJECT_IN_USE else logging.WARNING
        _LOG.log(level, "managed queue %s stays for now: %s", queue.name, error)
        with core.engine_lock:
            core.registry.subscriptions.doomed.append(queue)


def load_subscriptions(core: Core, definitions: Iterable[SubscriptionDefinition]) -> None:
    """Add the durable subscriptions of a store that is being opened, oldest first.

    Also deletes managed durable queues without a subscription, which a crash may leave.
    """
    subscriptions = core.registry.subscriptions
    for definition in sorted(definitions, key=lambda d: d.sub_id):
        subscriptions.add(Subscription(definition, is_durable=True))
    wanted = {s.destination for s in subscriptions.all() if s.is_managed}
    # A crash between a managed queue and its subscription leaves the queue alone.
    subscriptions.doomed += [
        queue
        for queue in core.registry.queues()
        if queue.definition.definition_type == c.MQQDT_PERMANENT_DYNAMIC
        and queue.name.startswith(_DURABLE_QUEUES)
        and queue.name not in wanted
    ]
    drop_doomed(core)


def _check_subscription(
    core: Core,
    definition: SubscriptionDefinition,
    *,
    is_durable: bool,
    replaced: Subscription | None,
) -> None:
    """Check a new definition, and replace its TOPICSTR by the full topic string.

    The full topic string is that of the topic object followed by TOPICSTR. ``replaced`` may already
    have the name. Raises MQRC_SUB_NAME_ERROR, MQRC_SUB_ALREADY_EXISTS, MQRC_TOPIC_STRING_ERROR,
    MQRC_SUB_INHIBITED, MQRC_DURABILITY_NOT_ALLOWED, MQRC_OPTIONS_ERROR or MQRC_UNKNOWN_OBJECT_NAME.
    The selector is not checked.
    """
    name, registry = definition.name, core.registry
    if (is_durable and not name.strip()) or len(name.encode()) > _LONGEST_NAME:
        raise mq_error(rc.MQRC_SUB_NAME_ERROR, f"{name[:50]!r} cannot name a subscription")
    if name and registry.subscriptions.find(name) not in (None, replaced):
        raise mq_error(rc.MQRC_SUB_ALREADY_EXISTS, f"subscription {name!r}")
    with core.engine_lock:
        topic = registry.topics.full_string(definition.topicobj, definition.topicstr)
        check_topic_string(topic, wildcards=True)
        values = registry.topics.values(topic)
    if values.subscribe_inhibited:
        raise mq_error(rc.MQRC_SUB_INHIBITED, f"SUB(DISABLED) for {topic!r}")
    if is_durable and not values.allows_durable:
        raise mq_error(rc.MQRC_DURABILITY_NOT_ALLOWED, f"DURSUB(NO) for {topic!r}")
    definition.topicstr = topic
    _check_correlation(definition)
    is_managed = definition.destclas == MANAGED_DESTINATION
    destination = definition.dest
    if is_managed == bool(destination):
        raise mq_error(
            rc.MQRC_OPTIONS_ERROR, f"DEST({destination}) does not fit the destination class"
        )
    if not is_managed:
        registry.resolve_target(destination_of(definition))


def _check_correlation(definition: SubscriptionDefinition) -> None:
    """Raise MQRC_OPTIONS_ERROR unless DESTCORL is empty or 24 bytes in hexadecimal digits."""
    text = definition.destcorl
    try:
        fits = len(bytes.fromhex(text)) in (0, ID_BYTES)
    except ValueError:
        fits = False
    if not fits:
        raise mq_error(
            rc.MQRC_OPTIONS_ERROR, f"DESTCORL({text}) is not {len(PASSED_ON)} hexadecimal digits"
        )


def _begin_life(core: Core, definition: SubscriptionDefinition, life_ms: int | None = None) -> None:
    """Set ``expire_at_ms`` of a definition: now plus ``life_ms``, or now plus its EXPIRY when None.

    Unlimited is stored as -1.
    """
    if life_ms is None and definition.expiry_tenths != c.MQEI_UNLIMITED:
        life_ms = ms_of_tenths(definition.expiry_tenths)
    definition.expire_at_ms = -1 if life_ms is None else core.now_ms() + life_ms


def undo_subscription(core: Core, subscription: Subscription) -> None:
    """Remove a subscription whose creation has failed, with its managed queue.

    A disk error is only logged; the subscription is then removed in memory, but may exist again
    after a restart.
    """
    try:
        remove_subscription(core, subscription)
    except MQError as error:
        # A full disk: it may be there again after a restart.
        _LOG.error("undoing %r: %s", subscription, error)
        with core.engine_lock:
            forget_subscription(core, subscription)


def _make_queue(core: Core, subscription: Subscription) -> None:
    """Create the managed queue of a subscription and set that queue as its destination.

    The topic names the model queue (MDURMDL or MNDURMDL). Raises MQRC_UNKNOWN_OBJECT_NAME when the
    model queue is not defined.
    """
    values = core.registry.topics.values(subscription.topic)
    model = values.durable_model if subscription.is_durable else values.non_durable_model
    prefix = _DURABLE_QUEUES if subscription.is_durable else _NON_DURABLE_QUEUES
    name = create_dynamic_queue(core, model, f"{prefix}*")
    if name is None:
        raise mq_error(rc.MQRC_UNKNOWN_OBJECT_NAME, f"model queue {model!r} is not defined")
    subscription.definition.dest = name
    subscription.take(subscription.definition)
