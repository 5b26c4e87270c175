"""Definitions, their status and connections at one moment, as operators see them.

The functions acquire the engine lock themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Final, NamedTuple

from mayfly.engine.attributes import (
    CHANNEL,
    CHILD,
    QLOCAL,
    TTL_FROM_SEND,
    ChannelDefinition,
    Definition,
    ManagerDefinition,
    QueueDefinition,
    SubscriptionDefinition,
    TopicDefinition,
)
from mayfly.engine.authority.records import PRINCIPAL, Entity, RecordKey
from mayfly.engine.core import Core
from mayfly.engine.counting import counts
from mayfly.engine.engine import Engine
from mayfly.engine.events.performance import is_monitored
from mayfly.engine.finding.search import ANY, in_order
from mayfly.engine.objects.administration import named_of
from mayfly.engine.open_handles import HandleView
from mayfly.engine.pubsub.topics import Subscription
from mayfly.engine.queues import LocalQueue
from mayfly.engine.session import Session
from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.store.keys import next_priority
from mayfly.verbs.facts import Value
from mayfly.verbs.topic_strings import ancestry, has_wildcards, levels_of
from mayfly.verbs.topic_strings import matches as matches_topic

GENERIC: Final = "*"


def matches(name: str, pattern: str) -> bool:
    """Return True if a name equals a pattern, or begins like it: ``A*`` matches ``A.B``."""
    if pattern.endswith(GENERIC):
        return name.startswith(pattern[:-1])
    return name == pattern


class QueueView(NamedTuple):
    """A queue definition with the counts of a local queue; for other kinds they are 0."""

    definition: QueueDefinition
    depth: int = 0
    input_count: int = 0
    output_count: int = 0


class QueueStatus(NamedTuple):
    """The status of a local queue; the age is that of its oldest message, 0 when empty."""

    depth: int
    input_count: int
    output_count: int
    has_uncommitted_work: bool
    oldest_age_seconds: int
    staged_count: int
    live_count: int
    expired_count: int
    #: Of MONQ: when a message was last put and got, and the means of the time on the queue.
    last_put_ms: int | None = None
    last_get_ms: int | None = None
    on_queue_ms: tuple[float, float] | None = None


class TopicView(NamedTuple):
    """The attributes that apply to a topic string; ``admin_name`` is its topic object or ""."""

    admin_name: str
    values: Mapping[str, Value]
    is_retained: bool
    subscription_count: int


class SubscriptionView(NamedTuple):
    """A subscription; one that is not durable ends with its session.

    ``copy_count`` are the copies put on its queue since it was made, or since the start of the
    queue manager, delayed ones from their publication on. ``last_copy_ms`` and ``last_open_ms``
    are when the last was put, and when a program last opened it, None for never.
    """

    definition: SubscriptionDefinition
    is_durable: bool
    copy_count: int
    last_copy_ms: int | None
    last_open_ms: int | None


class MemberView(NamedTuple):
    """A member of the queue-sharing group; ``decided_count`` units of work wait until it opens."""

    name: str
    group: str
    is_open: bool
    decided_count: int


def view_manager(core: Core) -> ManagerDefinition:
    """Return a copy of the queue manager's definition."""
    with core.engine_lock:
        return copy(core.registry.queue_manager)


def view_queue(core: Core, name: str) -> QueueDefinition | None:
    """Return a copy of the definition of a queue of any kind, None when it is not defined."""
    with core.engine_lock:
        return copy(core.registry.find(name))


def view_queues(core: Core, pattern: str, kinds: Collection[str]) -> list[QueueView]:
    """Return the queues of these kinds whose names match ``pattern``, sorted by name.

    A pattern is a name, or the beginning of names and ``*``.
    """
    with core.engine_lock:
        if pattern.endswith(GENERIC):
            found = [d for d in core.registry.definitions() if matches(d.name, pattern)]
        else:
            definition = core.registry.find(pattern)
            found = [] if definition is None else [definition]
        return [_queue_view(core, each) for each in found if each.kind in kinds]


def _queue_view(core: Core, definition: QueueDefinition) -> QueueView:
    """Return a copy of a queue definition with its counts; the engine lock is held."""
    if definition.kind != QLOCAL:
        return QueueView(copy(definition))
    queue = core.registry.queue(definition.name)
    return QueueView(copy(definition), queue.depth, queue.input_count, queue.output_count)


def view_queue_status(core: Core, name: str) -> QueueStatus:
    """Return the status of a local queue; raises MQRC_UNKNOWN_OBJECT_NAME for any other name."""
    with core.engine_lock:
        queue = core.registry.queue(name)
        counted = counts(core, queue)
        oldest_ms, now_ms = oldest_put_ms(core, queue), core.now_ms()
        return QueueStatus(
            queue.depth,
            queue.input_count,
            queue.output_count,
            queue.has_uncommitted_work,
            0 if oldest_ms is None else max(0, now_ms - oldest_ms) // SECOND_MS,
            counted.staged,
            counted.live,
            counted.expired_present,
            *_monitored(core, queue),
        )


def _monitored(
    core: Core, queue: LocalQueue
) -> tuple[int | None, int | None, tuple[float, float] | None]:
    """Return the times of the last put and get, and on the queue; None for each without MONQ."""
    if queue.statistics is None or not is_monitored(core, queue):
        return None, None, None
    statistics = queue.statistics
    return statistics.last_put_ms, statistics.last_get_ms, statistics.on_queue_ms


def oldest_put_ms(core: Core, queue: LocalQueue) -> int | None:
    """Return when the oldest message of a queue was put, in ms since 1970; None when it is empty.

    It is the first message of one of the priorities, so each priority with messages costs one
    search. The engine lock is held.
    """
    assert core.engine_lock.is_held()
    oldest_ms: int | None = None
    low: int | None = queue.low
    while low is not None:
        first = next(in_order(core, queue, ANY, low), None)
        if first is None:
            break
        row = first[0]
        oldest_ms = row.put_ms if oldest_ms is None else min(oldest_ms, row.put_ms)
        low = next_priority(row.k)
    return oldest_ms


def view_topics(core: Core, pattern: str) -> list[TopicDefinition]:
    """Return the topic objects whose names match a pattern such as ``A*``, sorted by name."""
    with core.engine_lock:
        found = core.registry.topics.definitions()
    return [definition for definition in found if matches(definition.name, pattern)]


def view_topic_strings(core: Core, pattern: str) -> list[str]:
    """Return the topic strings that a pattern with wildcards matches, sorted.

    Topic strings are those of topic objects, subscriptions without wildcards and retained
    publications, and what is above them.
    """
    with core.engine_lock:
        registry = core.registry
        known = {definition.topicstr for definition in registry.topics.definitions()}
        known.update(registry.retained)
        subscribed = (each.definition.topicstr for each in registry.subscriptions.all())
        known.update(each for each in subscribed if not has_wildcards(each))
    nodes = {node for each in known for node in ancestry(each)}
    levels = levels_of(pattern)
    return sorted(node for node in nodes if matches_topic(levels, levels_of(node)))


def view_topic_subscriptions(core: Core, topic: str) -> list[SubscriptionView]:
    """Return the subscriptions that get publications on a topic string, sorted by name."""
    with core.engine_lock:
        found = core.registry.subscriptions.matching(topic)
    return [_view(each) for each in sorted(found, key=lambda each: each.name)]


def _view(each: Subscription) -> SubscriptionView:
    """Return what is seen of a subscription now."""
    return SubscriptionView(
        each.definition, each.is_durable, each.copy_count, each.last_copy_ms, each.last_open_ms
    )


def view_topic_string(core: Core, topic: str) -> TopicView:
    """Return the attributes that apply to a topic string, each from the nearest topic object."""
    with core.engine_lock:
        registry = core.registry
        admin = registry.topics.at(topic)
        return TopicView(
            "" if admin is None else admin.name,
            registry.topics.effective(topic),
            topic in registry.retained,
            len(registry.subscriptions.matching(topic)),
        )


def view_subscriptions(core: Core, pattern: str) -> list[SubscriptionView]:
    """Return the subscriptions whose names match a pattern such as ``A*``, sorted by name.

    Those without a name come first.
    """
    with core.engine_lock:
        found = core.registry.subscriptions.all()
    wanted = sorted((s for s in found if matches(s.name, pattern)), key=lambda s: s.name)
    return [_view(each) for each in wanted]


def view_named(core: Core, kind: str, pattern: str) -> list[Definition]:
    """Return the objects of a kind (processes, channels) whose names match, sorted by name.

    ``pattern`` is a name, or the beginning of names and ``*``.
    """
    with core.engine_lock:
        return [d for d in named_of(core, kind) if matches(d.name, pattern)]


def view_neighbours(core: Core) -> tuple[str, list[str]]:
    """Return the parent in the publish/subscribe hierarchy, "" without one, and its children.

    The children are sorted by name.
    """
    with core.engine_lock:
        children = [child.name for child in named_of(core, CHILD)]
        return core.registry.queue_manager.parent, children


def view_members(core: Core) -> list[MemberView]:
    """Return the members of the queue-sharing group that are open or have pending work, by name.

    Pending are committed changes that a closed member makes when it is opened. Raises
    MQRC_OPTION_NOT_VALID_FOR_TYPE for a queue manager without a group.
    """
    directory, group = core.registry.directory, core.group
    if directory is None or group is None:
        raise mq_error(
            rc.MQRC_OPTION_NOT_VALID_FOR_TYPE, f"{core.name} is in no queue-sharing group"
        )
    with core.engine_lock:
        group.check_running()
        found = directory.status()
    return [MemberView(name, group.name, is_open, count) for name, is_open, count in found]


def view_authority(core: Core, profile: str | None = None) -> list[tuple[RecordKey, int]]:
    """Return all authority records with their bits, sorted by type, profile and entity.

    With ``profile`` only those of exactly this profile.
    """
    with core.engine_lock:
        records = core.registry.authority
        return records.all() if profile is None else records.of_profile(profile)


def entities_of(core: Core, entities: Iterable[Entity]) -> list[Entity]:
    """Return users and groups, each user followed by the groups of that user.

    Together they have the authority of all of them.
    """
    with core.engine_lock:
        found: list[Entity] = []
        for entity in entities:
            is_user = entity.kind == PRINCIPAL
            found += core.registry.authority.entities_of(entity.name) if is_user else [entity]
        return found


def granted(core: Core, entities: Sequence[Entity], object_type: str, name: str) -> int:
    """Return the authorities, as bits, that users and groups have together on an object.

    Returns 0 for none.
    """
    with core.engine_lock:
        return core.registry.authority.granted(entities, object_type, name)


def manager_definition(core: Core) -> ManagerDefinition:
    """Return the definition of the queue manager itself, not a copy: it changes with each ALTER."""
    return core.registry.queue_manager


def channel_definitions(core: Core) -> list[ChannelDefinition]:
    """Return the definitions of all channels, sorted by name."""
    return [one for one in named_of(core, CHANNEL) if isinstance(one, ChannelDefinition)]


def manager_folder(core: Core) -> Path | None:
    """Return the folder of a queue manager's store, None for one in memory."""
    return core.store.folder


def has_ttl_from_release(core: Core) -> bool:
    """Return True if a local queue has TTLFROM(RELEASE): expiry may be shorter than delay."""
    with core.engine_lock:
        return any(
            definition.kind == QLOCAL and definition.ttlfrom != TTL_FROM_SEND
            for definition in core.registry.definitions()
        )


class ConnectionView(NamedTuple):
    """One open connection as an operator sees it.

    ``connected_ms`` and ``unit_of_work_ms`` are the times of its connect and of the begin of its
    unit of work, in ms since 1970; the second is None without a unit of work.
    """

    number: int
    user: str
    application: str
    connected_ms: int
    unit_of_work_ms: int | None
    handles: tuple[HandleView, ...]
    #: The ids (SUBID) of the subscriptions that it has open.
    subscriptions: frozenset[str]


def view_connections(manager: Engine) -> list[ConnectionView]:
    """Return the open connections, oldest first.

    Raises MQRC_CONNECTION_BROKEN when the queue manager has stopped.
    """
    with manager.engine_lock:
        manager.check_running()
        sessions = sorted(_open_sessions(manager), key=lambda session: session.number)
        return [
            ConnectionView(
                session.number,
                session.context.user_identifier,
                session.context.put_appl_name,
                session.connected_ms,
                session.unit_of_work.began_ms,
                tuple(session._opened.views()),
                session._opened.held_subscriptions(),
            )
            for session in sessions
        ]


def is_disk_full(manager: Engine) -> bool:
    """Return True while puts are refused because the disk is full.

    Raises MQRC_CONNECTION_BROKEN when the queue manager has stopped.
    """
    manager.check_running()
    return manager.store.is_full


def stop_connection(manager: Engine, number: int) -> bool:
    """Stop a connection and back out its unit of work; return False if the number is unknown.

    Its waiting gets and later verbs fail with MQRC_CONNECTION_BROKEN.
    """
    manager.check_running()
    with manager.engine_lock:
        found = next((each for each in _open_sessions(manager) if each.number == number), None)
        if found is not None:
            text = f"connection {number} was stopped by an operator"
            found.end_error = mq_error(rc.MQRC_CONNECTION_BROKEN, text)
    if found is None:
        return False
    found.close(commit=False)
    return True


def _open_sessions(manager: Engine) -> list[Session]:
    """Return the sessions that are open, in no order; needs the engine lock."""
    assert manager.engine_lock.is_held()
    return [session for session in list(manager.sessions) if session.is_open]
