"""The topic tree: topic objects, the attributes of a topic string, and subscriptions to it."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from typing import Generic, NamedTuple, TypeVar

from mayfly.engine.attributes import (
    DEAD_LETTERS_YES,
    MANAGED_DESTINATION,
    PROXY,
    PUBSUB_DISABLED,
    PUBSUB_ENABLED,
    TOPIC,
    SubscriptionDefinition,
    TopicDefinition,
    attributes_of,
    defaults_of,
)
from mayfly.engine.queues import LocalQueue
from mayfly.lifetime.life import Cap
from mayfly.lifetime.moments import is_expired
from mayfly.lifetime.times import ms_of_tenths
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.store.messages import Due
from mayfly.store.units import StoredMessage
from mayfly.verbs.facts import Value
from mayfly.verbs.properties.selectors.selector import Selector, compile_selector
from mayfly.verbs.topic_strings import (
    MANY_LEVELS,
    ONE_LEVEL,
    ancestry,
    full_topic_string,
    levels_of,
)

BASE_TOPIC = "SYSTEM.BASE.TOPIC"
#: The model of DEFINE TOPIC; it has no topic string.
DEFAULT_TOPIC = "SYSTEM.DEFAULT.TOPIC"
DURABLE_MODEL = "SYSTEM.DURABLE.MODEL.QUEUE"
NON_DURABLE_MODEL = "SYSTEM.NDURABLE.MODEL.QUEUE"
#: The values at the root, whatever SYSTEM.BASE.TOPIC leaves open, and where it was deleted.
BASE_VALUES: dict[str, Value] = {
    "DEFPRTY": 0,
    "DEFPSIST": c.MQPER_NOT_PERSISTENT,
    "PMSGDLV": c.MQDLV_ALL_DUR,
    "NPMSGDLV": c.MQDLV_ALL_AVAIL,
    "PUB": PUBSUB_ENABLED,
    "SUB": PUBSUB_ENABLED,
    "DURSUB": c.MQSUB_DURABLE_ALLOWED,
    "CAPEXPRY": c.MQCEX_NOLIMIT,
    "USEDLQ": DEAD_LETTERS_YES,
    "MDURMDL": DURABLE_MODEL,
    "MNDURMDL": NON_DURABLE_MODEL,
}
_PARENT: dict[str, Value] = {k: v for k, v in defaults_of(TOPIC).items() if k in BASE_VALUES}
_CACHE_SIZE = 10_000


class RetainedPlace(NamedTuple):
    """Where the retained publication of a topic is: its key, and the persistence of its store."""

    key: int
    persistence: int


class TopicValues(NamedTuple):
    """The effective attributes of one topic string, each from the nearest object that sets it.

    ``cap_ms`` is the CAPEXPRY limit on message expiry, None without a limit.
    """

    default_priority: int
    default_persistence: int
    persistent_delivery: int
    volatile_delivery: int
    publish_inhibited: bool
    subscribe_inhibited: bool
    allows_durable: bool
    cap_ms: int | None
    #: The cap in words, None without one.
    capped_by: str | None
    uses_dead_letters: bool
    durable_model: str
    non_durable_model: str


class TopicTree:
    """All topic objects of one queue manager; guarded by the engine lock."""

    def __init__(self) -> None:
        """Create an empty tree, without system topic objects."""
        self._by_name: dict[str, TopicDefinition] = {}
        self._by_string: dict[str, TopicDefinition] = {}
        self._values: dict[str, TopicValues] = {}

    def find(self, name: str) -> TopicDefinition | None:
        """Return the topic object with this name, None when it is not defined."""
        return self._by_name.get(name)

    def at(self, topic: str) -> TopicDefinition | None:
        """Return the topic object with exactly this topic string, None when none has it."""
        return self._by_string.get(topic)

    def definitions(self) -> list[TopicDefinition]:
        """Return all topic objects, sorted by name."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    def add(self, definition: TopicDefinition) -> None:
        """Add a topic object, or replace the one of the same name; clears cached attributes."""
        self._by_name[definition.name] = definition
        if definition.name != DEFAULT_TOPIC:
            self._by_string[definition.topicstr] = definition
        self._values.clear()

    def remove(self, name: str) -> None:
        """Remove a topic object, which must exist; clears cached attributes.

        Its topic string then inherits from the next topic object above it.
        """
        definition = self._by_name.pop(name)
        if name != DEFAULT_TOPIC:
            del self._by_string[definition.topicstr]
        self._values.clear()

    def full_string(self, object_name: str, topic: str) -> str:
        """Return the topic string of a topic object followed by ``topic``; either may be empty.

        An empty ``object_name`` returns ``topic``. Raises MQRC_UNKNOWN_OBJECT_NAME when the object
        is not defined.
        """
        if not object_name:
            return topic
        definition = self._by_name.get(object_name)
        if definition is None:
            raise mq_error(rc.MQRC_UNKNOWN_OBJECT_NAME, f"topic {object_name!r} is not defined")
        return full_topic_string(definition.topicstr, topic)

    def values(self, topic: str) -> TopicValues:
        """Return the effective attributes of a topic string, even without a topic object."""
        found = self._values.get(topic)
        if found is None:
            if len(self._values) >= _CACHE_SIZE:
                self._values.clear()
            found = self._values[topic] = self._resolved(topic)
        return found

    def effective(self, topic: str) -> dict[str, Value]:
        """Return the effective MQSC attributes of a topic string, with no ASPARENT values."""
        found: dict[str, Value] = {}
        for string in ancestry(topic):
            definition = self._by_string.get(string)
            if definition is not None:
                own = {**definition.attributes, "CAPEXPRY": definition.cap_tenths}
                for keyword, as_parent in _PARENT.items():
                    if own[keyword] != as_parent:
                        found.setdefault(keyword, own[keyword])
        order = attributes_of(TOPIC)
        return {k: found.get(k, BASE_VALUES[k]) for k in order if k in BASE_VALUES}

    def _capped_by(self, topic: str, cap_tenths: int) -> str:
        """Return the CAPEXPRY limit as text, with the nearest topic object that sets it.

        ``cap_tenths`` is the limit in tenths of a second.
        """
        above = (self._by_string[string] for string in ancestry(topic) if string in self._by_string)
        names = (o.name for o in above if o.cap_tenths != c.MQCEX_AS_PARENT)
        return Cap(cap_tenths, TOPIC, next(names)).text

    def _resolved(self, topic: str) -> TopicValues:
        """Compute the effective attributes of a topic string, for :meth:`values` to cache."""
        values = TopicDefinition(TOPIC, topic).altered(self.effective(topic))
        cap_tenths = values.capexpry
        return TopicValues(
            values.defprty,
            values.defpsist,
            values.pmsgdlv,
            values.npmsgdlv,
            values.pub == PUBSUB_DISABLED,
            values.sub == PUBSUB_DISABLED,
            values.dursub == c.MQSUB_DURABLE_ALLOWED,
            None if cap_tenths == c.MQCEX_NOLIMIT else ms_of_tenths(cap_tenths),
            None if cap_tenths == c.MQCEX_NOLIMIT else self._capped_by(topic, cap_tenths),
            values.usedlq == DEAD_LETTERS_YES,
            values.mdurmdl,
            values.mndurmdl,
        )


Member = TypeVar("Member")
ID_BYTES = 24
#: DESTCORL of copies that keep the CorrelId of the publication.
PASSED_ON = "0" * (2 * ID_BYTES)


class SubscriptionHandle:
    """One opening of a subscription by a session.

    ``connection`` identifies the connection of that session, for ``no_local`` subscriptions.
    """

    __slots__ = ("connection", "subscription")

    def __init__(self, subscription: Subscription, connection: object) -> None:
        """Create a handle; the caller adds it to ``subscription.holds``.

        ``connection`` identifies the connection of the session that has the subscription open.
        """
        self.subscription = subscription
        self.connection = connection


class Subscription:
    """One subscription in memory; ``holds`` has one handle for each session that has it open.

    Only a shared one may have several handles; each publication then goes to one of the sessions.
    ``correl_id`` None passes on the publisher's CorrelId. ``topic`` may have wildcard levels.
    """

    __slots__ = (
        "copy_count",
        "correl_id",
        "definition",
        "destination",
        "expire_at_ms",
        "holds",
        "ignores_own",
        "is_durable",
        "is_managed",
        "is_shared",
        "last_copy_ms",
        "last_open_ms",
        "levels",
        "name",
        "on_request",
        "owner",
        "priority",
        "selector",
        "sub_id",
        "takes_retained",
        "topic",
    )

    def __init__(self, definition: SubscriptionDefinition, *, is_durable: bool) -> None:
        """Set all attributes from a definition, and compile its selector.

        A subscription that is not durable ends with its session. Raises MQRC_SELECTOR_SYNTAX_ERROR
        or another MQRC_SELECTOR_… for an invalid selector.
        """
        self.name = definition.name
        self.sub_id = bytes.fromhex(definition.sub_id)
        self.is_durable = is_durable
        self.holds: set[SubscriptionHandle] = set()
        self.is_shared = bool(definition.is_shared)
        self.ignores_own = bool(definition.ignores_own)
        self.owner = definition.owner
        self.takes_retained = not definition.is_new_only
        #: Copies put on its queue since it was made, or since the start of the queue manager.
        self.copy_count = 0
        #: When the last copy was put, and when a program last opened it; None for never.
        self.last_copy_ms: int | None = None
        self.last_open_ms: int | None = None
        text = definition.selector
        self.selector: Selector | None = compile_selector(text) if text.strip() else None
        self.take(definition)

    def take(self, definition: SubscriptionDefinition) -> None:
        """Set the attributes from a changed definition; selector, name and id stay."""
        self.definition = definition
        self.topic = definition.topicstr
        self.levels = levels_of(self.topic)
        self.destination = destination_of(definition)
        self.is_managed = definition.destclas == MANAGED_DESTINATION
        self.priority = definition.pubprty
        self.on_request = bool(definition.reqonly)
        correlation = definition.destcorl
        self.correl_id: bytes | None = None
        if correlation != PASSED_ON:
            self.correl_id = bytes.fromhex(correlation) if correlation else self.sub_id
        expire_at_ms = definition.expire_at_ms
        self.expire_at_ms = expire_at_ms if expire_at_ms >= 0 else None

    def count_copies(self, count: int, now_ms: int) -> None:
        """Count copies that are put on its queue now, one at least."""
        self.copy_count += count
        self.last_copy_ms = now_ms

    def skips_publisher(self, connection: object) -> bool:
        """Return True if a publication of this connection must not be copied to the subscription.

        That is so when the subscription takes publications on request only. It is also so for a
        ``no_local`` subscription that ``connection`` owns or has open.
        """
        return self.on_request or (self.ignores_own and self.is_of(connection))

    def is_of(self, connection: object) -> bool:
        """Return True if ``connection`` owns the subscription or has it open."""
        return connection == self.owner or any(h.connection == connection for h in self.holds)

    def __repr__(self) -> str:
        return f"<Subscription {self.name or self.sub_id.hex()} to {self.topic!r}>"


class Subscriptions:
    """All subscriptions of one queue manager; guarded by the engine lock.

    Publications reach matching subscriptions in the order in which the subscriptions were created.
    """

    def __init__(self) -> None:
        """Create an empty collection."""
        self._by_id: dict[bytes, Subscription] = {}
        self._by_name: dict[str, Subscription] = {}
        self._by_topic = TopicIndex[Subscription]()
        self._matching: dict[str, tuple[Subscription, ...]] = {}
        #: Topic -> the work of the selectors of those that match.
        self._work: dict[str, int] = {}
        self._ends: list[tuple[int, bytes]] = []
        #: Subscriptions that came (+1) and went (-1), for the hierarchy; None without one.
        self.changes: list[tuple[Subscription, int]] | None = None
        #: Managed queues of removed subscriptions, to be deleted when they are no longer in use.
        self.doomed: list[LocalQueue] = []
        #: Expired ones that are still on disk.
        self.ended: list[SubscriptionDefinition] = []

    def __len__(self) -> int:
        return len(self._by_id)

    def all(self) -> list[Subscription]:
        """Return all subscriptions, oldest first."""
        return list(self._by_id.values())

    def find(self, name: str) -> Subscription | None:
        """Return the subscription with this name, None when none has it."""
        return self._by_name.get(name)

    def named(self, name: str) -> Subscription:
        """Return the subscription with this name; raises MQRC_NO_SUBSCRIPTION when none has it."""
        found = self._by_name.get(name)
        if found is None:
            raise mq_error(rc.MQRC_NO_SUBSCRIPTION, f"subscription {name!r}")
        return found

    def by_id(self, sub_id: bytes) -> Subscription | None:
        """Return the subscription with this id, None when the id is unknown or was removed."""
        return self._by_id.get(sub_id)

    def add(self, subscription: Subscription) -> None:
        """Add a subscription to all indexes, schedule its expiry and clear cached matches."""
        self._note_change(subscription, 1)
        self._by_id[subscription.sub_id] = subscription
        if subscription.name:
            self._by_name[subscription.name] = subscription
        self._by_topic.add(subscription.levels, subscription.sub_id, subscription)
        self.note_end(subscription)
        self._forget_matches()

    def remove(self, subscription: Subscription) -> bool:
        """Remove a subscription from all indexes; return False when it had been removed before."""
        if self._by_id.pop(subscription.sub_id, None) is None:
            return False
        self._note_change(subscription, -1)
        if self._by_name.get(subscription.name) is subscription:
            del self._by_name[subscription.name]
        self._by_topic.remove(subscription.levels, subscription.sub_id)
        self._forget_matches()
        return True

    def _forget_matches(self) -> None:
        """Clear the caches of matching subscriptions."""
        self._matching.clear()
        self._work.clear()

    def matching(self, topic: str) -> tuple[Subscription, ...]:
        """Return the subscriptions whose topic string matches a topic, oldest first; cached."""
        found = self._matching.get(topic)
        if found is None:
            if len(self._matching) >= _CACHE_SIZE:
                self._matching.clear()
            here = self._by_topic.matching(levels_of(topic))
            # An id rises with its subscription.
            found = self._matching[topic] = tuple(here[sub_id] for sub_id in sorted(here))
        return found

    def selector_work(self, topic: str) -> int:
        """Return an estimate of the work of all selectors that match a topic; cached.

        It is how often they together read each character of a message; 0 without selectors.
        """
        work = self._work.get(topic)
        if work is None:
            if len(self._work) >= _CACHE_SIZE:
                self._work.clear()
            selectors = [found.selector for found in self.matching(topic)]
            work = self._work[topic] = sum(one.work for one in selectors if one is not None)
        return work

    def note_end(self, subscription: Subscription) -> None:
        """Schedule the expiry of a subscription; does nothing when it never expires."""
        if subscription.expire_at_ms is not None:
            heapq.heappush(self._ends, (subscription.expire_at_ms, subscription.sub_id))

    def next_end_ms(self) -> int | None:
        """Return when the next subscription expires, in ms since 1970; None when none ever does."""
        while self._ends:
            end_ms, sub_id = self._ends[0]
            subscription = self._by_id.get(sub_id)
            if subscription is not None and subscription.expire_at_ms == end_ms:
                return end_ms
            heapq.heappop(self._ends)
        return None

    def expired(self, now_ms: int) -> list[Subscription]:
        """Return the subscriptions expired by ``now_ms``, each once; the caller removes them.

        A second call does not return them again.
        """
        found: dict[bytes, Subscription] = {}
        while is_expired(self.next_end_ms(), now_ms):
            _end_ms, sub_id = heapq.heappop(self._ends)
            found[sub_id] = self._by_id[sub_id]
        return list(found.values())

    def destination(self, copy: StoredMessage | Due, now_ms: int) -> str:
        """Return the present queue of the subscription that a delayed copy is for.

        ``copy`` is its row on the staging queue. A neighbour's copy may use any of its proxy
        subscriptions that match the topic (D25). Raises MQRC_NO_SUBSCRIPTION when the subscription
        no longer exists or has expired (D23).
        """
        assert copy.sub_id is not None
        assert copy.target is not None
        assert copy.topic is not None
        found = self._by_id.get(copy.sub_id) or self._proxy(copy.target, copy.topic)
        if found is None or is_expired(found.expire_at_ms, now_ms):
            raise mq_error(rc.MQRC_NO_SUBSCRIPTION, f"the subscriber to {copy.topic!r} is gone")
        return found.destination

    def _note_change(self, subscription: Subscription, step: int) -> None:
        """Record an added (``step`` +1) or removed (-1) subscription for the hierarchy.

        Does nothing unless changes are recorded.
        """
        if self.changes is not None:
            self.changes.append((subscription, step))

    def _proxy(self, destination: str, topic: str) -> Subscription | None:
        """Return a proxy subscription that matches a topic and has this destination, else None."""
        for subscription in self.matching(topic):
            is_proxy = subscription.definition.made_by == PROXY
            if is_proxy and subscription.destination == destination:
                return subscription
        return None


def destination_of(definition: SubscriptionDefinition) -> str:
    """Return the queue for a subscription's copies: DEST, or ``QUEUE@MANAGER`` with DESTQMGR."""
    queue, manager = definition.dest, definition.destqmgr
    return f"{queue}@{manager}" if manager else queue


class _Node(Generic[Member]):
    """One topic level in the index; ``stays`` marks a ``#``, which matches any further levels."""

    __slots__ = ("below", "members", "stays")

    def __init__(self, *, stays: bool = False) -> None:
        """Create a node without members or levels below.

        ``stays`` is True for the level ``#``, which also matches any further levels of a topic.
        """
        self.below: dict[str, _Node[Member]] = {}
        self.members: dict[bytes, Member] = {}
        self.stays = stays


class TopicIndex(Generic[Member]):
    """A tree of the levels of topic strings, wildcards included; its members are kept by id."""

    def __init__(self) -> None:
        """Create an empty index."""
        self._root = _Node[Member]()

    def add(self, levels: Sequence[str], member_id: bytes, member: Member) -> None:
        """Add a member under the levels of its topic string, or replace the one with its id."""
        node = self._root
        for level in levels:
            found = node.below.get(level)
            if found is None:
                found = node.below[level] = _Node(stays=level == MANY_LEVELS)
            node = found
        node.members[member_id] = member

    def remove(self, levels: Sequence[str], member_id: bytes) -> None:
        """Remove a member and tree levels left empty; raises KeyError when it is absent."""
        path = [self._root]
        for level in levels:
            path.append(path[-1].below[level])
        del path[-1].members[member_id]
        for level, above, node in zip(reversed(levels), path[-2::-1], path[:0:-1], strict=True):
            if node.below or node.members:
                break
            del above.below[level]

    def matching(self, levels: Iterable[str]) -> dict[bytes, Member]:
        """Return the members whose topic string matches the levels of a topic, by their ids.

        The topic itself has no wildcards. The dict is empty when none matches.
        """
        reached = _with_many([self._root])
        for level in levels:
            further: dict[int, _Node[Member]] = {}
            for node in reached:
                if node.stays:
                    further[id(node)] = node
                for wanted in (level, ONE_LEVEL):
                    found = node.below.get(wanted)
                    if found is not None:
                        further[id(found)] = found
            reached = _with_many(further.values())
        return {member_id: m for node in reached for member_id, m in node.members.items()}


def _with_many(nodes: Iterable[_Node[Member]]) -> list[_Node[Member]]:
    """Return the nodes and the ``#`` nodes below them, because ``#`` also matches no level."""
    found = {id(node): node for node in nodes}
    for node in list(found.values()):
        behind = node.below.get(MANY_LEVELS)
        while behind is not None:
            found[id(behind)] = behind
            behind = behind.below.get(MANY_LEVELS)
    return list(found.values())
