"""Where messages are sent to and received from: queues and topics, and their URIs.

queue://[queue manager]/name[?priority=…&persistence=…&expiry=…&targetClient=…]
topic://topic string
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import parse_qsl

from mayfly.engine.objects import check_name
from mayfly.jms.constants import (
    AS_APPLICATION,
    AS_QUEUE_DEFINITION,
    TARGET_CLIENT_JMS,
    TARGET_CLIENT_MQ,
)
from mayfly.jms.errors import InvalidDestinationException, jms_error
from mayfly.lifetime.window import LONGEST_LIFE_MS
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQPER_NOT_PERSISTENT, MQPER_PERSISTENT
from mayfly.mqi.errors import MQError
from mayfly.store.keys import MAX_PRIORITY

_QUEUE, _TOPIC = "queue://", "topic://"


class Destination:
    """A queue or a topic."""


@dataclass(frozen=True)
class Queue(Destination):
    """A queue by its name; what it says of a message wins over what the producer says.

    ``priority``, ``persistence`` (MQPER_* + 1, as in JMS) and ``expiry_ms`` are -2 for the
    application's own; the first two may be -1, as the queue definition. Two are equal when their
    URIs are.
    """

    queue_name: str
    queue_manager: str = ""
    priority: int = AS_APPLICATION
    persistence: int = AS_APPLICATION
    expiry_ms: int = AS_APPLICATION
    target_client: int = TARGET_CLIENT_JMS
    _uri: str = field(init=False, repr=False, compare=False, default="")

    def __post_init__(self) -> None:
        """Make the URI, which every message carries."""
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
        uri = f"{_QUEUE}{self.queue_manager}/{self.queue_name}{mark}{options}"
        object.__setattr__(self, "_uri", uri)

    @property
    def uri(self) -> str:
        """The queue as a URI."""
        return self._uri

    def __str__(self) -> str:
        return self._uri


@dataclass(frozen=True)
class Topic(Destination):
    """A topic by its topic string."""

    topic_name: str

    @property
    def uri(self) -> str:
        """The topic as a URI."""
        return f"{_TOPIC}{self.topic_name}"

    def __str__(self) -> str:
        return self.uri


@dataclass(frozen=True)
class TemporaryQueue(Queue):
    """A queue that goes with its connection; only that connection may receive from it."""

    _delete: Callable[[str], None] = field(default=lambda _: None, repr=False, compare=False)

    def delete(self) -> None:
        """Delete it with its messages; raises JMSException (2042) while a consumer has it open."""
        self._delete(self.queue_name)


def queue_of(name: str) -> Queue:
    """Return the queue that a name or a URI names.

    Raises InvalidDestinationException with MQRC_OBJECT_NAME_ERROR for what is neither.
    """
    if not isinstance(name, str):
        raise InvalidDestinationException(f"{name!r} is no name", rc.MQRC_OBJECT_NAME_ERROR)
    if name.startswith(_QUEUE):
        return _queue_of_uri(name)
    return _checked(Queue(name))


@lru_cache(maxsize=1024)
def destination_of_uri(uri: str) -> Destination | None:
    """Return what a URI in a message names, None for what Mayfly does not understand."""
    if uri.startswith(_TOPIC):
        return Topic(uri.removeprefix(_TOPIC))
    try:
        return queue_of(uri)
    except InvalidDestinationException:
        return None


def _queue_of_uri(uri: str) -> Queue:
    rest, _, query = uri.removeprefix(_QUEUE).partition("?")
    manager, slash, name = rest.partition("/")
    if not slash:
        raise _wrong(uri, "it has no /")
    options = dict(parse_qsl(query, keep_blank_values=True))
    queue = Queue(
        name,
        manager,
        priority=_number(uri, options.pop("priority", "-2"), -2, MAX_PRIORITY),
        persistence=_number(uri, options.pop("persistence", "-2"), -2, MQPER_PERSISTENT + 1),
        expiry_ms=_number(uri, options.pop("expiry", "-2"), -2, LONGEST_LIFE_MS),
        target_client=_number(uri, options.pop("targetClient", "0"), 0, TARGET_CLIENT_MQ),
    )
    if options:
        raise _wrong(uri, f"{', '.join(options)} is not known here")
    if queue.persistence == MQPER_NOT_PERSISTENT or queue.expiry_ms == AS_QUEUE_DEFINITION:
        raise _wrong(uri, "persistence is -2, -1, 1 or 2, expiry is -2 or not negative")
    return _checked(queue)


def _checked(queue: Queue) -> Queue:
    try:
        check_name(queue.queue_name)
        if queue.queue_manager:
            check_name(queue.queue_manager)
    except MQError as error:
        raise jms_error(error) from error
    return queue


def _number(uri: str, text: str, low: int, high: int) -> int:
    try:
        value = int(text)
    except ValueError:
        raise _wrong(uri, f"{text!r} is not a number") from None
    if not low <= value <= high:
        raise _wrong(uri, f"{value} is not within {low} .. {high}")
    return value


def _wrong(uri: str, why: str) -> InvalidDestinationException:
    return InvalidDestinationException(f"{uri!r}: {why}", rc.MQRC_OBJECT_NAME_ERROR)
