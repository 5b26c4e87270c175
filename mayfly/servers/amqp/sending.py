"""A client that sends: each transfer is a put, and its outcome is that of the put."""

from __future__ import annotations

from functools import partial
from typing import Final

from proton import Condition, Delivery, Link, Session

from mayfly.client.open_objects import OUTDATED
from mayfly.connection.values import PutResult
from mayfly.mqi import constants as c
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError
from mayfly.servers.amqp import addresses, transactions
from mayfly.servers.amqp.addresses import Address
from mayfly.servers.amqp.conversations import Conversations, Target
from mayfly.servers.amqp.dynamic import made_node
from mayfly.servers.amqp.errors import (
    INVALID_FIELD,
    TOO_LARGE,
    AmqpError,
    of_mq,
)
from mayfly.servers.amqp.host import LinkHost, key_of
from mayfly.servers.amqp.incoming import Incoming, incoming
from mayfly.servers.amqp.terminus import capabilities_of

_PUT: Final = c.MQPMO_FAIL_IF_QUIESCING


class SendingClient:
    """One link on which a client sends: to one queue or topic, or to where each message says."""

    def __init__(self, host: LinkHost, link: Link, conversations: Conversations) -> None:
        """Open the target; raises AmqpError."""
        self.link, self.key = link, key_of(link)
        self._host, self._conversations = host, conversations
        target = link.remote_target
        self._address: Address | None = None
        if target.dynamic:
            self._address = made_node(conversations.main, target, link.target)
        else:
            link.target.copy(target)
            if target.address:
                self._address = addresses.read(target.address, capabilities_of(target))
        if self._address is not None:
            conversations.target(conversations.main, self._address)
        link.source.copy(link.remote_source)
        link.rcv_settle_mode = link.remote_rcv_settle_mode
        link.snd_settle_mode = link.remote_snd_settle_mode
        link.max_message_size = host.message_limit
        self._parts: dict[int, bytearray] = {}
        #: Transfers that are too long: what comes of them is read and forgotten.
        self._too_long: set[int] = set()
        self._under_way = 0
        link.open()
        link.flow(host.service.limits.credit)

    def flow(self) -> None:
        """A sending client gives no credit."""

    def session_is(self, session: Session) -> bool:
        """Tell whether it belongs to a session."""
        return bool(self.link.session == session)

    def delivery(self, delivery: Delivery) -> None:
        """Take a transfer, whole or in part; put the message when all of it is there."""
        if delivery.settled and not delivery.readable and not delivery.partial:
            delivery.settle()
            return
        if not delivery.readable and delivery.partial:
            return
        key = hash(delivery)
        if delivery.aborted:
            self._drop(key)
            delivery.settle()
            self._again()
            return
        raw = self._received(key, delivery)
        if delivery.partial:
            return
        self._drop(key)
        self.link.advance()
        if raw is None:
            said = f"a message has at most {self._host.message_limit} bytes here"
            self._told(delivery, AmqpError(TOO_LARGE, said))
            return
        self._put(delivery, raw)

    def end(self, *, is_closed: bool) -> None:
        """Close the target."""
        self.lost()
        if self._address is not None:
            self._conversations.forget_target(self._address)

    def lost(self) -> None:
        """Forget what has come in part."""
        for key in list(self._parts):
            self._drop(key)

    def _received(self, key: int, delivery: Delivery) -> bytes | None:
        """Return what has come of a message; None once it is too long."""
        budget = self._host.service.partial
        part = self._parts.setdefault(key, bytearray())
        while delivery.pending:
            read = self.link.recv(delivery.pending)
            if not read:
                break
            if len(part) + len(read) <= self._host.message_limit and budget.take(len(read)):
                part += read
            else:
                # The rest is read and forgotten: the outcome comes when the message ends.
                budget.give(len(part))
                part.clear()
                self._too_long.add(key)
        return None if key in self._too_long else bytes(part)

    def _drop(self, key: int) -> None:
        self._too_long.discard(key)
        part = self._parts.pop(key, None)
        if part:
            self._host.service.partial.give(len(part))

    def _put(self, delivery: Delivery, raw: bytes) -> None:
        try:
            name = transactions.name_in(delivery)
            connection = self._conversations.main
            if name is not None:
                connection = self._conversations.of_transaction(name)
            message = incoming(raw, connection.now_ms())
            address = self._address_of(message)
            target = self._conversations.target(connection, address)
        except AmqpError as error:
            self._told(delivery, error)
            return
        except MQError as error:
            self._told(delivery, of_mq(error))
            return
        self._under_way += 1
        done = partial(self._done, delivery, name, address)
        connection.asynchronous.put(
            target.handle,
            message.body,
            _descriptor(message, target),
            _PUT if name is None else _PUT | c.MQPMO_SYNCPOINT,
            on_done=lambda outcome: self._host.soon(partial(done, outcome)),
            msg_id=message.msg_id,
            correl_id=message.correl_id,
            time_to_live_ms=message.time_to_live_ms,
            delay_ms=message.delay_ms,
            properties=message.properties,
        )

    def _address_of(self, message: Incoming) -> Address:
        if self._address is not None:
            return self._address
        if not message.to:
            raise AmqpError(INVALID_FIELD, "a message on an anonymous link says where it goes")
        return addresses.read(message.to)

    def _done(
        self,
        delivery: Delivery,
        name: bytes | None,
        address: Address,
        outcome: PutResult | MQError | None,
    ) -> None:
        self._under_way -= 1
        if isinstance(outcome, MQError):
            if outcome.reason in OUTDATED:
                # The next message opens it as it is defined then.
                self._conversations.forget_target(address)
            self._told(delivery, of_mq(outcome))
            return
        if not delivery.settled:
            if name is None:
                delivery.update(Delivery.ACCEPTED)
            else:
                transactions.accept(delivery, name)
        delivery.settle()
        self._again()

    def _told(self, delivery: Delivery, error: AmqpError) -> None:
        """Reject a message; where the client has settled it already, the link ends instead."""
        if delivery.settled:
            delivery.settle()
            self._host.close_link(self, error)
            return
        delivery.local.condition = Condition(error.condition, error.description)
        delivery.update(Delivery.REJECTED)
        delivery.settle()
        self._again()

    def _again(self) -> None:
        """Give credit for as many as have been put."""
        missing = self._host.service.limits.credit - self.link.credit - self._under_way
        if missing * 2 >= self._host.service.limits.credit and not self._host.service.partial.full:
            self.link.flow(missing)


def _descriptor(message: Incoming, target: Target) -> Descriptor:
    """Return the descriptor; durable means nothing on a queue that ends with its connection."""
    if not target.is_temporary:
        return message.descriptor
    return message.descriptor._replace(persistence=c.MQPER_NOT_PERSISTENT)
