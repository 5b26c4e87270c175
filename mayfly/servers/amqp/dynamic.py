"""Dynamic nodes: a queue that a link makes, and that goes with its conversation."""

from __future__ import annotations

from typing import Final

from proton import Terminus

from mayfly.connection import Connection
from mayfly.mqi import constants as c
from mayfly.servers.amqp.addresses import QUEUE, TOPIC, Address
from mayfly.servers.amqp.terminus import capabilities_of

_MODEL: Final = "SYSTEM.DEFAULT.MODEL.QUEUE"
_NAMES: Final = "AMQP.*"
_OPTIONS: Final = c.MQOO_INPUT_SHARED | c.MQOO_OUTPUT


def made_node(connection: Connection, asked: Terminus, answer: Terminus) -> Address:
    """Make a temporary queue, or topic string, and write its address into the answer.

    A queue is deleted when the conversation ends, whatever is on it. Raises MQError.
    """
    answer.copy(asked)
    if "temporary-topic" in capabilities_of(asked):
        address = Address(TOPIC, connection.topics.make_temporary())
    else:
        made = connection.open(_MODEL, _OPTIONS, dynamic_name=_NAMES)
        address = Address(QUEUE, made.made)
    answer.address = address.name
    answer.dynamic = True
    return address
