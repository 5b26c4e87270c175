"""The messages that the clients of one connection send in one pass of the loop: one unit of work.

In a unit of work a message costs half of what a put alone costs; a sync they would share anyhow.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeAlias

from mayfly.client.open_objects import OUTDATED
from mayfly.connection import Connection
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError
from mayfly.servers.amqp.addresses import Address
from mayfly.servers.amqp.conversations import Conversations, Target
from mayfly.servers.amqp.incoming import Incoming

#: Is called in the loop when a message is there, or with why it is not.
OnPut: TypeAlias = Callable[[MQError | None], object]
#: Takes a call that is made later.
Later: TypeAlias = Callable[[Callable[[], object]], object]
_SYNCPOINT: Final = c.MQPMO_FAIL_IF_QUIESCING | c.MQPMO_SYNCPOINT


class Puts:
    """Puts messages, and commits them together at the end of the pass."""

    def __init__(self, conversations: Conversations, at_end: Later, soon: Later) -> None:
        """``at_end`` makes a call at the end of the pass, ``soon`` one in the loop."""
        self._conversations, self._at_end, self._soon = conversations, at_end, soon
        #: Those that are put and not committed.
        self._waiting: list[OnPut] = []

    def put(self, address: Address, message: Incoming, on_done: OnPut) -> None:
        """Put a message; ``on_done`` is called when it is durable.

        Raises AmqpError for an address that leads nowhere, and MQError as a put: nothing is put
        then, and ``on_done`` is not called.
        """
        connection = self._conversations.putting()
        try:
            put_within(self._conversations, connection, address, message)
        except MQError as error:
            if error.reason != rc.MQRC_SYNCPOINT_LIMIT_REACHED or not self._waiting:
                raise
            # MAXUMSGS: the rest of the pass is another unit of work.
            self._commit()
            put_within(self._conversations, connection, address, message)
        if not self._waiting:
            self._at_end(self._commit)
        self._waiting.append(on_done)

    def _commit(self) -> None:
        waiting, self._waiting = self._waiting, []
        if waiting:
            self._conversations.putting().asynchronous.commit(
                lambda outcome: self._soon(partial(_tell, waiting, outcome))
            )


def put_within(
    conversations: Conversations, connection: Connection, address: Address, message: Incoming
) -> None:
    """Put a message in the unit of work of a connection; raises AmqpError and MQError."""
    target = conversations.target(connection, address)
    try:
        connection.put(
            target.handle,
            message.body,
            _descriptor(message, target),
            _SYNCPOINT,
            msg_id=message.msg_id,
            correl_id=message.correl_id,
            time_to_live_ms=message.time_to_live_ms,
            delay_ms=message.delay_ms,
            properties=message.properties,
        )
    except MQError as error:
        if error.reason in OUTDATED:
            # The next message opens it as it is defined then.
            conversations.forget_target(address)
        raise


def _tell(waiting: list[OnPut], outcome: MQError | None) -> None:
    for on_done in waiting:
        on_done(outcome)


def _descriptor(message: Incoming, target: Target) -> Descriptor:
    """Return the descriptor; durable means nothing on a queue that ends with its connection."""
    if not target.is_temporary:
        return message.descriptor
    return message.descriptor._replace(persistence=c.MQPER_NOT_PERSISTENT)
