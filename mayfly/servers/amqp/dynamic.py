"""Dynamic nodes: temporary queues and topics, for the client alone whose link has made them."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from proton import Described, Terminus

from mayfly.client.connection import Connection
from mayfly.client.connection.topics import is_temporary_topic
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error
from mayfly.servers.amqp.addresses import QUEUE, TOPIC, Address
from mayfly.servers.amqp.errors import LOCKED, NOT_FOUND, AmqpError
from mayfly.servers.amqp.terminus import capabilities_of

_MODEL: Final = "SYSTEM.DEFAULT.MODEL.QUEUE"
_NAMES: Final = "AMQP.*"
#: Names of temporary queues, of AMQP and of JMS: such a name is never that of a topic.
_QUEUE_NAME: Final = re.compile(r"AMQP?\.[0-9A-F]{16}")
_OPTIONS: Final = c.MQOO_INPUT_SHARED | c.MQOO_OUTPUT
_POLICY: Final = "lifetime-policy"
#: By code and by name. A node with another policy stays until its conversation ends.
_DELETE_ON_CLOSE: Final = (0x2B, "amqp:delete-on-close:list")
#: So many topics that are gone are known; the oldest are forgotten.
_MOST_GONE: Final = 10_000


class Node(NamedTuple):
    """A node that was made; ``handle`` is that of a queue, whose close deletes it, 0 for a topic.

    One that does not end with its link ends with its connection.
    """

    address: Address
    handle: int
    ends_with_link: bool


class Nodes:
    """The temporary topics of all clients of a server that have been deleted; in its loop alone.

    A topic string is anybody's to publish to; those who answer to one that is gone are to hear it.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._gone: dict[str, None] = {}

    def note_gone(self, topic: str) -> None:
        """Note that a topic has been deleted."""
        self._gone[topic] = None
        if len(self._gone) > _MOST_GONE:
            del self._gone[next(iter(self._gone))]

    def check_topic(self, topic: str) -> None:
        """Raise AmqpError amqp:not-found for a topic that has been deleted."""
        if topic in self._gone:
            raise _gone(topic)


class OwnNodes:
    """The nodes of one client, which alone receives from them.

    See JMS, "Creating temporary destinations".
    """

    def __init__(self, nodes: Nodes) -> None:
        """Begin with none."""
        self.all = nodes
        self._names: frozenset[str] = frozenset()

    def make(self, connection: Connection, asked: Terminus, answer: Terminus) -> Node:
        """Make a temporary queue, or topic string, and write its address into the answer.

        It is deleted when its link is closed, or its conversation ends, whatever is on it; with
        another lifetime policy than delete-on-close when its conversation ends. Raises MQError.
        """
        answer.copy(asked)
        ends = _ends_with_its_link(asked)
        if "temporary-topic" in capabilities_of(asked):
            node = Node(Address(TOPIC, connection.topics.make_temporary()), 0, ends)
        else:
            made = connection.open(_MODEL, _OPTIONS, dynamic_name=_NAMES)
            node = Node(Address(QUEUE, made.made), made.handle, ends)
        self._names |= {node.address.name}
        answer.address = node.address.name
        answer.dynamic = True
        return node

    def delete(self, connection: Connection, node: Node) -> None:
        """Delete a node whose link has been closed; raises MQError."""
        name = node.address.name
        self._names -= {name}
        if node.handle:
            connection.close_object(node.handle)
        else:
            self.all.note_gone(name)
            connection.topics.delete_temporary(name)

    def end(self) -> None:
        """Forget them: the conversation ends, and they with it."""
        for name in self._names:
            if is_temporary_topic(name):
                self.all.note_gone(name)
        self._names = frozenset()

    def check_reader(self, name: str) -> None:
        """Raise AmqpError amqp:resource-locked for a temporary queue or topic of another client.

        One of its own that is deleted is amqp:not-found.
        """
        self.all.check_topic(name)
        if name not in self._names:
            said = f"{name} is a temporary queue or topic of another connection"
            told = mq_error(rc.MQRC_OPTION_NOT_VALID_FOR_TYPE, said)
            raise AmqpError(LOCKED, str(told))


def is_temporary_queue(name: str) -> bool:
    """Return True if a name has the form of temporary queues."""
    return _QUEUE_NAME.fullmatch(name) is not None


def check_no_queue(name: str) -> None:
    """Raise AmqpError amqp:not-found for the name of a temporary queue, where there is none."""
    if is_temporary_queue(name):
        raise _gone(name)


def _gone(name: str) -> AmqpError:
    said = f"temporary queue or topic {name} has been deleted"
    return AmqpError(NOT_FOUND, str(mq_error(rc.MQRC_UNKNOWN_OBJECT_NAME, said)))


def _ends_with_its_link(asked: Terminus) -> bool:
    properties = asked.properties
    properties.rewind()
    found: Any = properties.get_object() if properties.next() else None
    policy = found.get(_POLICY) if isinstance(found, dict) else None
    return not isinstance(policy, Described) or policy.descriptor in _DELETE_ON_CLOSE
