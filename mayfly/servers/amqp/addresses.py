"""Addresses of AMQP nodes (queues and topics), with capabilities, filters and dynamic nodes.

``queue://``, ``topic://`` and capabilities decide the kind; without them a name is that of a queue
if one exists, otherwise of a topic. The name of a queue manager may precede the queue's as in JMS:
``queue://QM2/REPLIES``. Dynamic nodes are temporary queues and topics; only the client whose link
has made one can receive from it.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from proton import Array, Data, Described, Terminus, symbol

from mayfly.client.connection import Connection
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.servers.amqp.codec import LOCKED, NOT_FOUND, AmqpError
from mayfly.verbs import requests as ask
from mayfly.verbs.topic_strings import is_temporary_topic

QUEUE, TOPIC = "queue", "topic"
_PREFIXES: Final = (
    ("queue:///", QUEUE),
    ("queue://", QUEUE),
    ("topic:///", TOPIC),
    ("topic://", TOPIC),
    ("queue:", QUEUE),
    ("topic:", TOPIC),
    ("/queue/", QUEUE),
    ("/queues/", QUEUE),
    ("/topic/", TOPIC),
    ("/topics/", TOPIC),
)
_KINDS: Final = {
    "queue": QUEUE,
    "temporary-queue": QUEUE,
    "topic": TOPIC,
    "temporary-topic": TOPIC,
}
_SELECTORS: Final = frozenset(
    ("apache.org:selector-filter:string", "jms-selector", "selector", 0x0000468C00000004)
)
_NO_LOCALS: Final = frozenset(("apache.org:no-local-filter:list", "no-local", 0x0000468C00000003))
_MODEL: Final = "SYSTEM.DEFAULT.MODEL.QUEUE"
_NAMES: Final = "AMQP.*"
#: Names of temporary queues, of AMQP and of JMS: such a name is never that of a topic.
_QUEUE_NAME: Final = re.compile(r"AMQP?\.[0-9A-F]{16}")
_OPTIONS: Final = c.MQOO_INPUT_SHARED | c.MQOO_OUTPUT
_POLICY: Final = "lifetime-policy"
#: By code and by name. A node with another policy stays until its conversation ends.
_DELETE_ON_CLOSE: Final = (0x2B, "amqp:delete-on-close:list")
#: The most deleted topics that are remembered.
_MAX_GONE: Final = 10_000


class NodeAddress(NamedTuple):
    """The name of a queue or topic; ``kind`` is QUEUE, TOPIC, or "" if the address leaves it open.

    ``manager`` is a queue manager named before the queue, "" if none is named.
    """

    kind: str
    name: str
    manager: str = ""


def read(address: str, capabilities: tuple[str, ...] = ()) -> NodeAddress:
    """Parse an address: ``'queue://QM2/Q1'`` -> ``NodeAddress('queue', 'Q1', 'QM2')``.

    A prefix of the address takes precedence over ``capabilities`` of the terminus. With neither,
    the kind is "".
    """
    for prefix, kind in _PREFIXES:
        if address.startswith(prefix):
            name = address[len(prefix) :]
            if prefix == "queue://" and "/" in name:
                manager, _slash, name = name.partition("/")
                return NodeAddress(kind, name, manager)
            return NodeAddress(kind, name)
    kinds = [_KINDS[name] for name in capabilities if name in _KINDS]
    return NodeAddress(kinds[0] if kinds else "", address)


def capabilities_of(terminus: Terminus) -> tuple[str, ...]:
    """Return the capabilities of a terminus as strings, such as ``('queue',)``; () without any."""
    found = object_of(terminus.capabilities)
    given = found.elements if isinstance(found, Array) else [found]
    return tuple(str(one) for one in given if isinstance(one, (symbol, str)))


def filters_of(terminus: Terminus) -> tuple[str, bool]:
    """Return the selector of a source, "" without one, and whether it has the no-local filter.

    Filters of other names are ignored.
    """
    given = object_of(terminus.filter)
    selector, no_local = "", False
    for name, value in given.items() if isinstance(given, dict) else ():
        code = value.descriptor if isinstance(value, Described) else name
        code = code if isinstance(code, int) else str(code)
        plain = value.value if isinstance(value, Described) else value
        if code in _SELECTORS or str(name) in _SELECTORS:
            selector = str(plain)
        elif code in _NO_LOCALS or str(name) in _NO_LOCALS:
            no_local = True
    return selector, no_local


def object_of(data: Data) -> Any:
    """Return the first value of a proton ``Data`` object; None for an empty one."""
    data.rewind()
    return data.get_object() if data.next() else None


class DynamicNode(NamedTuple):
    """A temporary queue or topic; ``handle`` is the open handle of the queue, 0 for a topic.

    Closing the handle deletes the queue. With ``ends_with_link`` False the node ends with its
    connection.
    """

    address: NodeAddress
    handle: int
    ends_with_link: bool


class DeletedTopics:
    """The deleted temporary topics of all clients of a server; only its event loop uses the object.

    A topic string can be used without being created. With this list, a client that replies to a
    deleted temporary topic gets an error.
    """

    def __init__(self) -> None:
        """Begin without topics."""
        self._topics: dict[str, None] = {}

    def add(self, topic: str) -> None:
        """Note that a temporary topic was deleted; of more than 10,000 the oldest is forgotten."""
        self._topics[topic] = None
        if len(self._topics) > _MAX_GONE:
            del self._topics[next(iter(self._topics))]

    def check_topic(self, topic: str) -> None:
        """Raise AmqpError amqp:not-found if a temporary topic was deleted."""
        if topic in self._topics:
            raise _deleted(topic)


class OwnNodes:
    """The temporary queues and topics of one client; only this client can receive from them.

    See JMS, "Creating temporary destinations".
    """

    def __init__(self, nodes: DeletedTopics) -> None:
        """Begin without a node; ``nodes`` are the deleted temporary topics of all clients."""
        self.all = nodes
        self._names: frozenset[str] = frozenset()

    def make(self, connection: Connection, asked: Terminus, answer: Terminus) -> DynamicNode:
        """Create a temporary queue or topic, and write its address into ``answer``.

        ``asked`` is the terminus of the client: capability ``temporary-topic`` makes a topic. The
        node and its messages are deleted when the connection ends. They are deleted when its link
        is closed, unless the client asks for a lifetime policy other than delete-on-close. Raises
        MQError.
        """
        answer.copy(asked)
        ends = _ends_with_its_link(asked)
        if "temporary-topic" in capabilities_of(asked):
            node = DynamicNode(
                NodeAddress(TOPIC, connection.call(ask.MakeTemporaryTopic())), 0, ends
            )
        else:
            made = connection.call(ask.Open(_MODEL, _OPTIONS, dynamic_name=_NAMES))
            node = DynamicNode(NodeAddress(QUEUE, made.made), made.handle, ends)
        self._names |= {node.address.name}
        answer.address = node.address.name
        answer.dynamic = True
        return node

    def delete(self, connection: Connection, node: DynamicNode) -> None:
        """Delete a temporary queue or topic with its messages; raises MQError."""
        name = node.address.name
        self._names -= {name}
        if node.handle:
            connection.call(ask.CloseObject(node.handle))
        else:
            self.all.add(name)
            connection.call(ask.DeleteTemporaryTopic(name))

    def end(self) -> None:
        """Forget all nodes, which the end of the connection deletes.

        Temporary topics are noted as deleted.
        """
        for name in self._names:
            if is_temporary_topic(name):
                self.all.add(name)
        self._names = frozenset()

    def check_reader(self, name: str) -> None:
        """Raise AmqpError unless a temporary queue or topic belongs to this client.

        The condition is amqp:resource-locked for a node of another client, amqp:not-found for a
        deleted topic.
        """
        self.all.check_topic(name)
        if name not in self._names:
            text = f"{name} is a temporary queue or topic of another connection"
            refusal = mq_error(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE, text)
            raise AmqpError(LOCKED, str(refusal))


def is_temporary_queue(name: str) -> bool:
    """Return True if a name has the form of temporary queues, ``AMQP.`` and 16 hex digits."""
    return _QUEUE_NAME.fullmatch(name) is not None


def check_no_queue(name: str) -> None:
    """Raise AmqpError amqp:not-found if a name has the form of temporary queues.

    The caller knows that no such queue exists, so the queue was deleted.
    """
    if is_temporary_queue(name):
        raise _deleted(name)


def _deleted(name: str) -> AmqpError:
    """Return AmqpError amqp:not-found for a deleted temporary queue or topic."""
    text = f"temporary queue or topic {name} has been deleted"
    return AmqpError(NOT_FOUND, str(mq_error(rc.MQRC_UNKNOWN_OBJECT_NAME, text)))


def _ends_with_its_link(asked: Terminus) -> bool:
    """Return True unless a terminus asks for a lifetime policy other than delete-on-close."""
    found = object_of(asked.properties)
    policy = found.get(_POLICY) if isinstance(found, dict) else None
    return not isinstance(policy, Described) or policy.descriptor in _DELETE_ON_CLOSE
