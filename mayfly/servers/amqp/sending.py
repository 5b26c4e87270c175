"""Sending clients: each transfer on a link is a put, and its outcome is that of the put."""

from __future__ import annotations

from functools import partial
from typing import Final

from proton import Array, Delivery, Link, Terminus, symbol

from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import LostAnswer, MQError, mq_error
from mayfly.servers.amqp import addresses, codec, links, transactions
from mayfly.servers.amqp.addresses import DynamicNode, NodeAddress, capabilities_of, object_of
from mayfly.servers.amqp.codec import (
    INVALID_FIELD,
    TOO_LARGE,
    AmqpError,
    amqp_error,
)
from mayfly.servers.amqp.conversations import ClientConversations
from mayfly.servers.amqp.incoming import Incoming, MessageReader
from mayfly.servers.amqp.links import LinkEndpoint, LinkHost, Raw, put_within
from mayfly.servers.budget import OWN_BYTES, Reservation

#: A message that is too long is read and discarded up to this multiple of the longest length.
_MAX_REFUSED = 2
#: The place of the default-outcome among the fields of a source.
_DEFAULT_OUTCOME: Final = 8


class SendingClient(LinkEndpoint):
    """A link on which a client sends: to the link's target, or to the address in each message."""

    def __init__(
        self, host: LinkHost, link: Link, conversations: ClientConversations, source: bytes
    ) -> None:
        """Open the target and give credit; raises AmqpError if the target cannot be opened.

        ``source`` is the client's encoded source, which says the outcomes it supports.
        """
        super().__init__(host, link, conversations)
        assert host.puts is not None
        self._puts = host.puts
        target = link.remote_target
        self._address: NodeAddress | None = None
        #: The dynamic node that the link has made.
        self._node: DynamicNode | None = None
        if target.dynamic:
            self._node = conversations.nodes.make(conversations.main, target, link.target)
            self._address = self._node.address
        else:
            link.target.copy(target)
            if target.address:
                self._address = addresses.read(target.address, capabilities_of(target))
        if self._address is not None:
            conversations.attach_target(self._address)
        link.source.copy(link.remote_source)
        link.rcv_settle_mode = link.remote_rcv_settle_mode
        link.snd_settle_mode = link.remote_snd_settle_mode
        link.max_message_size = host.message_limit
        self._settles_first = link.remote_rcv_settle_mode != Link.RCV_SECOND
        self._takes_rejected = _takes_rejected(link.remote_source, source)
        self._reader = MessageReader()
        self._parts: dict[Raw, bytearray] = {}
        #: Memory reserved for incomplete messages above the free share of a connection.
        self._reservations: dict[Raw, Reservation] = {}
        #: Refused messages, whose rest is discarded, with the bytes received.
        self._refused: dict[Raw, int] = {}
        #: Transfers whose messages are being put; only the outcome settles them, also when the
        #: client has settled before.
        self._under_way: set[Raw] = set()
        #: Transfers that have their outcome, and wait until the client has settled.
        self._unsettled: set[Raw] = set()
        link.open()
        link.flow(host.service.limits.credit)

    def delivery(self, delivery: Raw) -> None:
        """Read a transfer, complete or in part; put the message once it is complete.

        An aborted transfer is dropped. A refused message is read and discarded.
        """
        is_partial = links.is_partial(delivery)
        if not links.is_readable(delivery):
            if delivery in self._under_way or is_partial:
                return
            if links.is_settled(delivery):
                links.settle(delivery)
                if delivery in self._unsettled:
                    self._unsettled.discard(delivery)
                    self._replenish_credit()
            return
        if links.is_aborted(delivery):
            self._drop(delivery)
            links.settle(delivery)
            self._replenish_credit()
            return
        raw = self._received(delivery, is_partial=is_partial)
        if is_partial or self._is_over:
            return
        is_refused = delivery in self._refused
        self._drop(delivery)
        links.end_of_message(self.key)
        if is_refused:
            # It has its outcome.
            links.settle(delivery)
            self._replenish_credit()
            return
        self._put(delivery, raw)

    def quiesce(self) -> bool:
        """Return True if the link is idle: no message is incomplete or being put."""
        return not self._parts and not self._under_way

    def end(self, *, is_closed: bool) -> None:
        """Forget incomplete messages and close the target.

        Puts that are running take effect, but are not answered. A temporary queue or topic of the
        link is deleted if ``is_closed``.
        """
        self.lost()
        if self._address is not None:
            self._conversations.forget_target(self._address)
        self._conversations.node_closed(self._node, is_closed=is_closed)

    def lost(self) -> None:
        """Forget incomplete messages, because the connection has ended."""
        self._is_over = True
        for delivery in list(self._parts):
            self._drop(delivery)

    def _received(self, delivery: Raw, *, is_partial: bool) -> bytes:
        """Return the bytes of a complete message; b"" for an incomplete or refused one.

        ``is_partial`` is True if more bytes follow. A message above the longest length is refused.
        Memory is reserved for one above 64 KiB.
        """
        pending = links.pending_bytes(delivery)
        limit = self._host.message_limit
        if not is_partial and delivery not in self._parts and pending <= limit:
            # Most messages come in one frame.
            return links.read(self.key, pending)
        part = self._parts.setdefault(delivery, bytearray())
        while read := links.read(self.key, links.pending_bytes(delivery)):
            if delivery in self._refused:
                self._discard_refused(delivery, len(read))
            elif len(part) + len(read) > limit:
                self._refuse(delivery, part, self._too_large(), len(read))
            else:
                part += read
                if delivery not in self._reservations:
                    self._host.count_parts(len(read))
                    if len(part) > OWN_BYTES:
                        self._reserve(delivery, part)
            if self._is_over:
                return b""
        return b"" if is_partial else bytes(part)

    def _too_large(self) -> AmqpError:
        """Return AmqpError amqp:link:message-size-exceeded."""
        return AmqpError(TOO_LARGE, f"a message has at most {self._host.message_limit} bytes here")

    def _discard_refused(self, delivery: Raw, count: int) -> None:
        """Add ``count`` to the discarded bytes of a refused message.

        End the link when they are more than twice the longest length of a message.
        """
        self._refused[delivery] += count
        if self._refused[delivery] > _MAX_REFUSED * self._host.message_limit:
            self._host.close_link(self, self._of_delivery(delivery, self._too_large()))

    def _reserve(self, delivery: Raw, part: bytearray) -> None:
        """Reserve memory for the longest message, as the length is known only at the end.

        ``part`` are the bytes received so far. The message is refused if no memory can be reserved.
        """
        refuse = partial(self._refuse_for_memory, delivery)
        reservation = self._host.reserve(self._host.message_limit, refuse)
        if reservation is None:
            refuse()
        else:
            self._reservations[delivery] = reservation
            self._host.count_parts(-len(part))

    def _refuse_for_memory(self, delivery: Raw) -> None:
        """Refuse an incomplete message for which no memory is free; ignored if it was dropped."""
        part = self._parts.get(delivery)
        if part is not None:
            text = "the messages of all connections together leave no room: send it again"
            self._refuse(delivery, part, amqp_error(mq_error(rc.MQRC_RESOURCE_PROBLEM, text)))

    def _refuse(self, delivery: Raw, part: bytearray, why: AmqpError, read_bytes: int = 0) -> None:
        """Reject an incomplete message; its further bytes will be read and discarded.

        ``why`` is the error for the client. ``part`` are the bytes that were kept so far;
        ``read_bytes`` more were read and not kept.
        """
        self._forget_part(delivery, part)
        self._refused[delivery] = len(part) + read_bytes
        part.clear()
        self._reject(delivery, why)

    def _drop(self, delivery: Raw) -> None:
        """Forget an incomplete or refused message; ignored if it is unknown."""
        self._refused.pop(delivery, None)
        part = self._parts.pop(delivery, None)
        if part is not None:
            self._forget_part(delivery, part)

    def _forget_part(self, delivery: Raw, part: bytearray) -> None:
        """Give the memory of an incomplete message, reserved or counted, back to the budget."""
        reservation = self._reservations.pop(delivery, None)
        if reservation is not None:
            self._host.end_reservation(reservation)
        elif part:
            self._host.count_parts(-len(part))

    def _put(self, delivery: Raw, raw: bytes) -> None:
        """Begin to put a complete message, in a transaction if the transfer names one.

        Outside a transaction the client gets the answer when the message is durable. Reject the
        message after an error.
        """
        conversations = self._conversations
        try:
            message = self._reader.read(raw, conversations.main.now_ms())
            address = self._address_of(message)
            if links.remote_state(delivery) == transactions.TRANSACTIONAL_STATE:
                self._put_in_transaction(delivery, address, message)
                return
            self._puts.put(address, message, partial(self._done, delivery))
        except (AmqpError, MQError) as error:
            self._report_refusal(delivery, error)
        else:
            self._under_way.add(delivery)

    def _put_in_transaction(self, delivery: Raw, address: NodeAddress, message: Incoming) -> None:
        """Put a message in the transaction that its transfer names, and answer that it is accepted.

        Raises AmqpError if the transaction is not open, and the MQError of the put.
        """
        wrapped = links.wrapped(delivery)
        name = transactions.name_in(wrapped)
        connection = self._conversations.of_transaction(name)
        put_within(self._conversations, connection, address, message)
        if not wrapped.settled:
            transactions.accept(wrapped, name)
        self._settle(delivery)
        self._replenish_credit()

    def _address_of(self, message: Incoming) -> NodeAddress:
        """Return the address of the link, or on an anonymous link that of the message.

        Raises AmqpError amqp:invalid-field if neither has one.
        """
        if self._address is not None:
            return self._address
        if not message.to:
            raise AmqpError(INVALID_FIELD, "a message on an anonymous link says where it goes")
        return addresses.read(message.to)

    def _done(self, delivery: Raw, outcome: MQError | None) -> None:
        """Answer a put that has ended: accepted, or rejected with the error ``outcome``.

        After a LostAnswer the message may be put: the link is closed, and the message has no
        outcome.
        """
        self._under_way.discard(delivery)
        if self._is_over:
            return
        if isinstance(outcome, LostAnswer):
            self._host.close_link(self, self._of_delivery(delivery, amqp_error(outcome)))
            return
        if outcome is not None:
            self._report_refusal(delivery, outcome)
            return
        if not links.is_settled(delivery):
            links.update(delivery, links.ACCEPTED)
        self._settle(delivery)
        self._replenish_credit()

    def _report_refusal(self, delivery: Raw, error: AmqpError | MQError) -> None:
        """Reject a message with an error, and settle it; the client gets new credit."""
        if self._reject(delivery, amqp_error(error)):
            self._settle(delivery)
            self._replenish_credit()

    def _reject(self, delivery: Raw, error: AmqpError) -> bool:
        """Reject a message and return True, or end the link and return False.

        The link ends when the client has settled the message already, or does not support the
        outcome rejected.
        """
        error = self._of_delivery(delivery, error)
        if links.is_settled(delivery) or not self._takes_rejected:
            if links.is_settled(delivery) and not links.is_partial(delivery):
                links.settle(delivery)
            self._host.close_link(self, error)
            return False
        wrapped = links.wrapped(delivery)
        wrapped.local.condition = error.as_condition()
        wrapped.update(Delivery.REJECTED)
        return True

    def _of_delivery(self, delivery: Raw, error: AmqpError) -> AmqpError:
        """Return a copy of an error that names the delivery by its tag."""
        info = {symbol("delivery-tag"): links.tag(delivery)}
        return AmqpError(error.condition, error.description, info)

    def _settle(self, delivery: Raw) -> None:
        """Settle a message that has its outcome; with rcv-settle-mode second, after its client."""
        if self._settles_first or links.is_settled(delivery):
            links.settle(delivery)
        else:
            self._unsettled.add(delivery)

    def _replenish_credit(self) -> None:
        """Give new credit for settled messages, once at least half of the limit is missing."""
        limit = self._host.service.limits.credit
        under_way = len(self._under_way) + len(self._unsettled)
        if under_way * 2 > limit:
            return
        missing = limit - links.credit(self.key) - under_way
        if missing * 2 >= limit:
            links.give_credit(self.key, missing)


def _takes_rejected(source: Terminus, encoded: bytes) -> bool:
    """Return True if a source supports the outcome rejected.

    ``encoded`` are the bytes of ``source``. A source with a list supports the listed outcomes, one
    without a list its default-outcome only. A source with neither is assumed to support all
    outcomes, because most clients list none.
    """
    given = object_of(source.outcomes)
    named = given.elements if isinstance(given, Array) else [given]
    outcomes = {transactions.NAMES.get(str(one), one) for one in named if one is not None}
    default = _default_outcome_of(encoded)
    if not outcomes and default is not None:
        outcomes = {default}
    return not outcomes or transactions.REJECTED in outcomes


def _default_outcome_of(source: bytes) -> int | None:
    """Return the code of the default-outcome in an encoded source; None without one."""
    try:
        value = codec.decoded_value(source) if source else None
    except AmqpError:
        return None
    fields = value.value if isinstance(value, codec.Described) else None
    if not isinstance(fields, list) or len(fields) <= _DEFAULT_OUTCOME:
        return None
    outcome = fields[_DEFAULT_OUTCOME]
    code = codec.plain(outcome.descriptor) if isinstance(outcome, codec.Described) else None
    return transactions.NAMES.get(code, 0) if isinstance(code, str) else code
