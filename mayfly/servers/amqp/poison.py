"""Messages that were backed out too often: they go to BOQNAME, else to the dead-letter queue."""

from __future__ import annotations

import logging

from mayfly.connection import Delivery, Settlement
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.servers.amqp.conversations import Conversations
from mayfly.servers.amqp.sources import Source

_LOG = logging.getLogger("mayfly.amqp")


def move_away(conversations: Conversations, source: Source, held: Delivery) -> None:
    """Put a held message on the backout queue, with one sync; its life goes on.

    Where that fails it is dead-lettered; where that fails too, it stays on its queue, counted.
    """
    name = conversations.declare()
    connection = conversations.of_transaction(name)
    message = held.result.message
    try:
        conversations.main.asynchronous.settle(
            [held.number], Settlement.TAKEN, within=connection.number
        )
        try:
            connection.onward.forward(message, source.backout_queue)
        except MQError:
            connection.onward.dead_letter(message, rc.MQRC_BACKOUT_THRESHOLD_REACHED)
    except MQError as error:
        _LOG.warning("message %s goes nowhere: %s", message.msg_id.hex(), error)
        conversations.discharge(name, fail=True, on_done=lambda _outcome: None)
        return
    conversations.discharge(name, fail=False, on_done=_noted)


def _noted(outcome: MQError | None) -> None:
    if outcome is not None:
        _LOG.warning("moving a message to its backout queue: %s", outcome)
