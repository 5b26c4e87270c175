"""The messages that the clients of one connection send in one pass of the loop: one unit of work.

In a unit of work a message costs half of what a put alone costs; a sync they would share anyhow.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol, TypeAlias

from mayfly.client.connection import Connection
from mayfly.client.open_objects import OUTDATED
from mayfly.lifetime.moments import Until
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError
from mayfly.servers.amqp.addresses import Address
from mayfly.servers.amqp.calls import Calls
from mayfly.servers.amqp.conversations import Conversations, Target
from mayfly.servers.amqp.incoming import Incoming
from mayfly.servers.amqp.service import Service

#: Is called in the loop when a message is durable, or with the error of its put.
OnPut: TypeAlias = Callable[[MQError | None], object]
_SYNCPOINT: Final = c.MQPMO_FAIL_IF_QUIESCING | c.MQPMO_SYNCPOINT


class Sender(Protocol):
    """The connection of the clients that send."""

    service: Service
    calls: Calls
    message_count: int

    def count_puts(self, count: int) -> None:
        """Note how many bytes are on their way to the disk."""


class Puts:
    """Puts messages, and commits them together at the end of the pass."""

    def __init__(self, conversations: Conversations, sender: Sender) -> None:
        """Begin with none."""
        self._conversations, self._sender = conversations, sender
        #: Those that are put and not committed, and how many bytes they have.
        self._waiting: list[OnPut] = []
        self._waiting_bytes = self._bytes_under_way = 0

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
            self._sender.calls.at_end(self._commit)
        self._waiting.append(on_done)
        self._waiting_bytes += len(message.body)
        self._sender.message_count += 1

    def _commit(self) -> None:
        waiting, self._waiting = self._waiting, []
        count, self._waiting_bytes = self._waiting_bytes, 0
        if not waiting:
            return
        self._count_bytes(count)
        self._sender.service.unhurried.make()
        told = partial(self._end, waiting, count)
        self._conversations.putting().asynchronous.commit(
            self._conversations.awaited(
                lambda outcome: self._sender.calls.soon(partial(told, outcome))
            )
        )

    def _end(self, waiting: list[OnPut], count: int, outcome: MQError | None) -> None:
        self._count_bytes(-count)
        for on_done in waiting:
            on_done(outcome)

    def _count_bytes(self, change: int) -> None:
        """Note bytes on their way to the disk; a client that is ahead of the disk waits."""
        self._bytes_under_way += change
        self._sender.count_puts(self._bytes_under_way)


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
            delay_ms=message.delay_ms if message.until_ms is None else Until(message.until_ms),
            properties=message.properties,
        )
    except MQError as error:
        if error.reason in OUTDATED:
            # The next message opens it as it is defined then.
            conversations.forget_target(address)
        raise


def _descriptor(message: Incoming, target: Target) -> Descriptor:
    """Return the descriptor; durable means nothing on a queue that ends with its connection."""
    if not target.is_temporary:
        return message.descriptor
    return message.descriptor._replace(persistence=c.MQPER_NOT_PERSISTENT)
