"""Dynamic nodes: a queue that a link makes, and that ends with the link or its conversation."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from proton import Described, Terminus

from mayfly.connection import Connection
from mayfly.mqi import constants as c
from mayfly.servers.amqp.addresses import QUEUE, TOPIC, Address
from mayfly.servers.amqp.terminus import capabilities_of

_MODEL: Final = "SYSTEM.DEFAULT.MODEL.QUEUE"
_NAMES: Final = "AMQP.*"
_OPTIONS: Final = c.MQOO_INPUT_SHARED | c.MQOO_OUTPUT
_POLICY: Final = "lifetime-policy"
#: By code and by name. A node with another policy stays until its conversation ends.
_DELETE_ON_CLOSE: Final = (0x2B, "amqp:delete-on-close:list")


class Node(NamedTuple):
    """A node that was made; the close of ``handle`` deletes it, which is 0 for one that stays."""

    address: Address
    handle: int = 0


def made_node(connection: Connection, asked: Terminus, answer: Terminus) -> Node:
    """Make a temporary queue, or topic string, and write its address into the answer.

    A queue is deleted when its link is closed, or its conversation ends, whatever is on it; with
    another lifetime policy than delete-on-close when its conversation ends. Raises MQError.
    """
    answer.copy(asked)
    if "temporary-topic" in capabilities_of(asked):
        node = Node(Address(TOPIC, connection.topics.make_temporary()))
    else:
        made = connection.open(_MODEL, _OPTIONS, dynamic_name=_NAMES)
        handle = made.handle if _ends_with_its_link(asked) else 0
        node = Node(Address(QUEUE, made.made), handle)
    answer.address = node.address.name
    answer.dynamic = True
    return node


def _ends_with_its_link(asked: Terminus) -> bool:
    properties = asked.properties
    properties.rewind()
    found: Any = properties.get_object() if properties.next() else None
    policy = found.get(_POLICY) if isinstance(found, dict) else None
    return not isinstance(policy, Described) or policy.descriptor in _DELETE_ON_CLOSE
