"""Destinations of JMS: queues and topics, and their URIs.

queue://[queue manager]/name[?priority=…&persistence=…&expiry=…&targetClient=…] topic://topic
string[?the same], also topic:///topic string
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import parse_qsl, unquote

from mayfly.jms.constants import (
    AS_APPLICATION,
    AS_QUEUE_DEFINITION,
    TARGET_CLIENT_JMS,
    TARGET_CLIENT_MQ,
)
from mayfly.jms.errors import InvalidDestinationException, jms_error, refuse
from mayfly.lifetime.window import LONGEST_LIFE_MS
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQPER_NOT_PERSISTENT, MQPER_PERSISTENT
from mayfly.mqi.errors import MQError
from mayfly.store.keys import MAX_PRIORITY
from mayfly.verbs.checks import check_name
from mayfly.verbs.topic_strings import check_topic_string

_QUEUE, _TOPIC = "queue://", "topic://"
#: Characters of a topic string that are escaped in a URI.
_QUOTED = str.maketrans({"%": "%25", "?": "%3F"})


@dataclass(frozen=True, eq=False)
class Destination(ABC):
    """A queue or topic; its message settings take precedence over those of the producer.

    ``priority``, ``persistence`` (MQPER_* + 1, as in JMS) and ``expiry_ms`` are -2 to use the
    producer's value. ``priority`` and ``persistence`` may be -1 to use the definition of the queue
    or topic. Destinations with the same URI are equal.
    """

    priority: int = field(default=AS_APPLICATION, kw_only=True)
    persistence: int = field(default=AS_APPLICATION, kw_only=True)
    expiry_ms: int = field(default=AS_APPLICATION, kw_only=True)
    target_client: int = field(default=TARGET_CLIENT_JMS, kw_only=True)
    _uri: str = field(init=False, repr=False, default="")

    def __post_init__(self) -> None:
        """Build the URI from address and message settings; every message carries it."""
        given = {
            "expiry": (self.expiry_ms, AS_APPLICATION),
            "persistence": (self.persistence, AS_APPLICATION),
            "priority": (self.priority, AS_APPLICATION),
            "targetClient": (self.target_client, TARGET_CLIENT_JMS),
        }
        options = "&".join(
            f"{name}={value}" for name, (value, usual) in given.items() if value != usual
        )
        mark = "?" if options else ""
        object.__setattr__(self, "_uri", f"{self._address()}{mark}{options}")

    @abstractmethod
    def _address(self) -> str:
        """Return the URI without options, such as ``queue://QM1/ORDERS``."""

    @property
    def uri(self) -> str:
        """The URI, with those message settings that differ from the default."""
        return self._uri

    def __str__(self) -> str:
        return self._uri

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Destination) and other.uri == self.uri

    def __hash__(self) -> int:
        return hash(self._uri)


@dataclass(frozen=True, eq=False)
class Queue(Destination):
    """A queue by its name; a blank ``queue_manager`` is the connected queue manager."""

    queue_name: str
    queue_manager: str = ""

    def _address(self) -> str:
        """Return ``queue://manager/name``."""
        return f"{_QUEUE}{self.queue_manager}/{self.queue_name}"


@dataclass(frozen=True, eq=False)
class Topic(Destination):
    """A topic by its topic string, which may have wildcard levels when subscribing."""

    topic_name: str

    def _address(self) -> str:
        """Return the URI without options: ``a/b`` -> ``topic://a/b``, ``/a`` -> ``topic:////a``."""
        # One slash behind the two is none of the topic string's.
        slash = "/" if self.topic_name.startswith("/") else ""
        return f"{_TOPIC}{slash}{self.topic_name.translate(_QUOTED)}"


@dataclass(frozen=True, eq=False)
class TemporaryQueue(Queue):
    """A queue that exists as long as its connection, which alone may receive from it."""

    _delete: Callable[[str], None] = field(default=lambda _: None, repr=False)

    def delete(self) -> None:
        """Delete the queue and its messages.

        Raises JMSException with MQRC_OBJECT_IN_USE (2042) while a consumer has it open,
        InvalidDestinationException if it is deleted already.
        """
        self._delete(self.queue_name)


@dataclass(frozen=True, eq=False)
class TemporaryTopic(Topic):
    """A topic that exists as long as its connection, which alone may subscribe to it."""

    _delete: Callable[[str], None] = field(default=lambda _: None, repr=False)

    def delete(self) -> None:
        """Delete the topic.

        Raises JMSException with MQRC_OBJECT_IN_USE (2042) while it has a consumer,
        InvalidDestinationException if it is deleted already.
        """
        self._delete(self.topic_name)


def queue_of(name: str) -> Queue:
    """Return the queue for a name or a ``queue://`` URI; the queue need not exist.

    Raises InvalidDestinationException with MQRC_OBJECT_NAME_ERROR for any other value.
    """
    if not isinstance(name, str):
        raise InvalidDestinationException(f"{name!r} is no name", rc.MQRC_OBJECT_NAME_ERROR)
    if name.startswith(_QUEUE):
        return _checked_queue(_queue_of_uri(name))
    return _checked_queue(Queue(name))


def topic_of(name: str) -> Topic:
    """Return the topic for a topic string or a ``topic://`` URI; wildcard levels are allowed.

    Raises InvalidDestinationException: with MQRC_TOPIC_STRING_ERROR for a wrong topic string, with
    MQRC_OBJECT_NAME_ERROR for a wrong URI or a value that is no text.
    """
    if not isinstance(name, str):
        raise InvalidDestinationException(f"{name!r} is no name", rc.MQRC_OBJECT_NAME_ERROR)
    topic = _topic_of_uri(name) if name.startswith(_TOPIC) else Topic(name)
    try:
        check_topic_string(topic.topic_name, wildcards=True)
    except MQError as error:
        raise jms_error(error) from error
    return topic


def destination_to_use(destination: object) -> Queue | Topic:
    """Return ``destination`` unchanged if it is a queue or topic.

    Raises InvalidDestinationException for any other value.
    """
    if isinstance(destination, (Queue, Topic)):
        return destination
    what = "another kind" if isinstance(destination, Destination) else "no destination"
    raise InvalidDestinationException(f"{destination!r} is {what}", rc.MQRC_UNKNOWN_OBJECT_NAME)


def queue_to_use(destination: object) -> Queue:
    """Return ``destination`` unchanged if it is a queue.

    Raises InvalidDestinationException for any other value, also for a topic.
    """
    found = destination_to_use(destination)
    if isinstance(found, Topic):
        refuse(rc.MQRC_OBJECT_TYPE_ERROR, f"{destination} is no queue")
    return found


@lru_cache(maxsize=1024)
def destination_of_uri(uri: str) -> Destination | None:
    """Return the queue or topic for a URI in a message, None for an invalid URI."""
    try:
        return topic_of(uri) if uri.startswith(_TOPIC) else queue_of(uri)
    except InvalidDestinationException:
        return None


def _queue_of_uri(uri: str) -> Queue:
    """Return the queue for a ``queue://`` URI; raises InvalidDestinationException if malformed."""
    rest, _, query = uri.removeprefix(_QUEUE).partition("?")
    manager, slash, name = rest.partition("/")
    if not slash:
        raise _wrong(uri, "it has no /")
    return Queue(name, manager, **_options(uri, query))


def _topic_of_uri(uri: str) -> Topic:
    """Return the topic for a ``topic://`` URI; raises InvalidDestinationException if malformed."""
    rest, _, query = uri.removeprefix(_TOPIC).partition("?")
    try:
        name = unquote(rest.removeprefix("/"), errors="strict")
    except UnicodeDecodeError:
        raise _wrong(uri, "what its % stand for is not UTF-8") from None
    return Topic(name, **_options(uri, query))


def _options(uri: str, query: str) -> dict[str, int]:
    """Return the message settings in the query of a URI: ``priority=3`` -> ``{"priority": 3, …}``.

    Settings that the query lacks have their default. Raises InvalidDestinationException for an
    unknown name or a wrong value.
    """
    options = dict(parse_qsl(query, keep_blank_values=True))
    found = {
        "priority": _number(uri, options.pop("priority", "-2"), -2, MAX_PRIORITY),
        "persistence": _number(uri, options.pop("persistence", "-2"), -2, MQPER_PERSISTENT + 1),
        "expiry_ms": _number(uri, options.pop("expiry", "-2"), -2, LONGEST_LIFE_MS),
        "target_client": _number(uri, options.pop("targetClient", "0"), 0, TARGET_CLIENT_MQ),
    }
    if options:
        raise _wrong(uri, f"{', '.join(options)} is not known here")
    if found["persistence"] == MQPER_NOT_PERSISTENT or found["expiry_ms"] == AS_QUEUE_DEFINITION:
        raise _wrong(uri, "persistence is -2, -1, 1 or 2, expiry is -2 or not negative")
    return found


def _checked_queue(queue: Queue) -> Queue:
    """Return ``queue`` unchanged; raises InvalidDestinationException if a name is invalid."""
    try:
        check_name(queue.queue_name)
        if queue.queue_manager:
            check_name(queue.queue_manager)
    except MQError as error:
        raise jms_error(error) from error
    return queue


def _number(uri: str, text: str, low: int, high: int) -> int:
    """Return the number in ``text``, a value in the query of a URI.

    Raises InvalidDestinationException for other text, and for a number outside ``low`` to ``high``.
    """
    try:
        value = int(text)
    except ValueError:
        raise _wrong(uri, f"{text!r} is not a number") from None
    if not low <= value <= high:
        raise _wrong(uri, f"{value} is not within {low} .. {high}")
    return value


def _wrong(uri: str, why: str) -> InvalidDestinationException:
    """Return (not raise) the InvalidDestinationException for a wrong URI; ``why`` is the reason."""
    return InvalidDestinationException(f"{uri!r}: {why}", rc.MQRC_OBJECT_NAME_ERROR)
