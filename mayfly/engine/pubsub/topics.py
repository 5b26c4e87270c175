"""The topic tree: topic objects by topic string, and the attributes effective for a string."""

from __future__ import annotations

from typing import NamedTuple

from mayfly.engine.attributes import (
    DEAD_LETTERS_YES,
    PUBSUB_DISABLED,
    PUBSUB_ENABLED,
    TOPIC,
    TopicDefinition,
    attributes_of,
    defaults_of,
)
from mayfly.lifetime.life import Cap
from mayfly.lifetime.times import ms_of_tenths
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.verbs.facts import Value
from mayfly.verbs.topic_strings import ancestry, full_topic_string

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
