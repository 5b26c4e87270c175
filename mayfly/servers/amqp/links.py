"""Links of an AMQP client: the base class, the connection as links see it, and batched puts.

The kinds of links are in ``sending.py``, ``receiving.py`` and ``transactions.py``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

import cproton as p
from proton import Collector, Delivery, Link, Session
from proton import Connection as ProtonConnection

from mayfly.client.connection import Connection
from mayfly.client.open_objects import OUTDATED
from mayfly.lifetime.moments import Until
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError
from mayfly.servers.amqp.addresses import NodeAddress
from mayfly.servers.amqp.codec import AmqpError
from mayfly.servers.amqp.conversations import ClientConversations, OnEnd
from mayfly.servers.amqp.incoming import Incoming
from mayfly.servers.amqp.service import AmqpService, DeferredCalls
from mayfly.servers.budget import Reservation
from mayfly.verbs import requests as ask

_SYNCPOINT: Final = c.MQPMO_FAIL_IF_QUIESCING | c.MQPMO_SYNCPOINT


class LinkHost(Protocol):
    """A client's connection, as its links see it; implemented by AmqpConnection."""

    service: AmqpService
    message_limit: int
    message_count: int
    puts: BatchedPuts | None
    calls: DeferredCalls

    def when_memory_is_free(self, call: Callable[[], None]) -> None:
        """Run ``call`` in the event loop once memory for messages is free."""

    def reserve(self, count: int, refuse: Callable[[], None]) -> Reservation | None:
        """Reserve ``count`` bytes for an incomplete message; None if it must be refused now.

        Returns at once. If the memory is not free, nothing is read from the client until it is;
        after 30 seconds ``refuse`` is called, which must refuse the message.
        """

    def end_reservation(self, room: Reservation) -> None:
        """Return the reserved memory ``room``, or stop waiting for it; called once for each."""

    def count_parts(self, change: int) -> None:
        """Add ``change`` to the counted bytes of incomplete messages that have no reservation."""

    def pump(self) -> None:
        """Handle the events of proton, and send the bytes that wait for the client."""

    def count_puts(self, change: int) -> None:
        """Add ``change`` to the counted bytes of messages that are being put.

        Above a limit nothing more is read from the client.
        """

    def close_link(self, link: LinkEndpoint, error: AmqpError) -> None:
        """Close a link on the server's initiative, with an error for the client."""


class LinkEndpoint(ABC):
    """The server's end of one link of a client."""

    def __init__(self, host: LinkHost, link: Link, conversations: ClientConversations) -> None:
        """Take a link that the client has attached and the server has not yet opened."""
        self.key = raw_of(link)
        self._host, self._conversations = host, conversations
        self._is_over = False

    @property
    def link(self) -> Link:
        """The link as a proton object, which is made anew for each use.

        It is not kept, because the garbage collector may free this object on any thread, and only
        the event loop may call proton.
        """
        return Link.wrap(self.key)

    def session_is(self, session: Session) -> bool:
        """Return True if the link belongs to a session."""
        return bool(self.link.session == session)

    def flow(self) -> None:
        """React to new credit from a receiving client; other links ignore it."""
        return

    @abstractmethod
    def delivery(self, delivery: Raw) -> None:
        """Handle a message of a sending client, or the outcome that a receiving client has sent."""

    @abstractmethod
    def quiesce(self) -> bool:
        """Begin no new work; return True if no work is left.

        Does not wait: the caller repeats the call until the result is True. Work is a message that
        is being put or that the client holds, and a transaction that is being ended.
        """

    @abstractmethod
    def end(self, *, is_closed: bool) -> None:
        """End the link after its client has closed it (``is_closed``) or has only detached it."""

    @abstractmethod
    def lost(self) -> None:
        """End the link because the connection has ended; nothing is sent to the client."""


class BatchedPuts:
    """Puts the messages that a client sends in one pass of the event loop in one unit of work.

    In a unit of work a message costs half of a single put.
    """

    def __init__(self, conversations: ClientConversations, host: LinkHost) -> None:
        """Begin without puts; ``host`` is the connection of the client."""
        self._conversations, self._host = conversations, host
        #: The callbacks of puts that are not committed, and the bytes of the messages.
        self._waiting: list[OnEnd] = []
        self._waiting_bytes = 0

    def put(self, address: NodeAddress, message: Incoming, on_done: OnEnd) -> None:
        """Put a message; the commit follows at the end of this pass of the event loop.

        ``on_done`` is called with None when the message is durable, or with the commit's error.
        Raises AmqpError for an address that cannot be opened, and the MQError of a failed put;
        ``on_done`` is not called then. If the unit of work is full (MAXUMSGS), the puts before are
        committed first.
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
            self._host.calls.at_end(self._commit)
        self._waiting.append(on_done)
        self._waiting_bytes += len(message.body)
        self._host.message_count += 1

    def _commit(self) -> None:
        """Begin to commit the puts of this pass of the event loop; does nothing without any."""
        waiting, self._waiting = self._waiting, []
        count, self._waiting_bytes = self._waiting_bytes, 0
        if not waiting:
            return
        self._host.service.deferred_settlements.make()
        end, soon = partial(self._end, waiting, count), self._host.calls.soon
        conversations = self._conversations
        conversations.begin(
            conversations.putting(), ask.Commit(), lambda outcome: soon(partial(end, outcome))
        )
        # Only now: a commit that cannot begin has no end that would subtract them. The end comes in
        # a later call of the event loop.
        self._host.count_puts(count)

    def _end(self, waiting: list[OnEnd], count: int, outcome: MQError | None) -> None:
        """Report ``outcome``, None or the commit's error, to each put in ``waiting``.

        ``count`` is the bytes of these puts, which no longer count as being put.
        """
        self._host.count_puts(-count)
        for on_done in waiting:
            on_done(outcome)


def put_within(
    conversations: ClientConversations,
    connection: Connection,
    address: NodeAddress,
    message: Incoming,
) -> None:
    """Put a message in the unit of work of a connection, without a commit.

    ``conversations`` has the handle of the queue or topic ``address``. Raises AmqpError if it
    cannot be opened, and the MQError of the put. On a temporary queue the message becomes
    nonpersistent. If the queue was altered or deleted since it was opened, this put fails, and the
    next one opens the target again.
    """
    target = conversations.target(connection, address)
    descriptor = message.descriptor
    if target.is_temporary:
        # Durability has no use on a queue that ends with its connection.
        descriptor = descriptor._replace(persistence=c.MQPER_NOT_PERSISTENT)
    try:
        connection.put(
            target.handle,
            message.body,
            descriptor,
            _SYNCPOINT,
            msg_id=message.msg_id,
            correl_id=message.correl_id,
            time_to_live_ms=message.time_to_live_ms,
            delay_ms=message.delay_ms if message.until_ms is None else Until(message.until_ms),
            properties=message.properties,
        )
    except MQError as error:
        if error.reason in OUTDATED:
            # The next message opens the target again.
            conversations.forget_target(address)
        raise


# Transfers, outcomes and credit, by the C functions of proton


#: A pointer to a delivery, or to a link.
Raw: TypeAlias = Any

ACCEPTED: Final = Delivery.ACCEPTED
_WRAPPERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "pn_connection": lambda event: ProtonConnection.wrap(p.pn_event_connection(event)),
    "pn_session": lambda event: Session.wrap(p.pn_event_session(event)),
    "pn_link": lambda event: Link.wrap(p.pn_event_link(event)),
}


class Handlers(NamedTuple):
    """Functions to call with the events of one connection."""

    delivery: Callable[[Raw, Raw], object]
    flow: Callable[[Raw], object]
    #: By the names of events; called with the wrapped connection, session or link.
    others: Mapping[str, Callable[[Any], object]]


def handle_events(collector: Collector, handlers: Handlers) -> None:
    """Call the handlers of all events that proton has collected, in order.

    Unknown ones are dropped.
    """
    raw = collector._impl
    while event := p.pn_collector_peek(raw):
        kind = p.pn_event_type(event)
        if kind == p.PN_DELIVERY:
            delivery = p.pn_event_delivery(event)
            handlers.delivery(delivery, p.pn_delivery_link(delivery))
        elif kind == p.PN_LINK_FLOW:
            handlers.flow(p.pn_event_link(event))
        else:
            other = handlers.others.get(p.pn_event_type_name(kind))
            if other is not None:
                other(_WRAPPERS[p.pn_event_class_name(event)](event))
        p.pn_collector_pop(raw)


def raw_of(endpoint: Link | Delivery) -> Raw:
    """Return the C pointer of a proton link or delivery."""
    return endpoint._impl


def wrapped(delivery: Raw) -> Delivery:
    """Return a delivery as an object of proton's Python class."""
    return Delivery.wrap(delivery)


_Ask: TypeAlias = Callable[[Raw], bool]
_Count: TypeAlias = Callable[[Raw], int]
_Do: TypeAlias = Callable[[Raw], object]

# A client that sends.

#: Whether bytes of a delivery, or its end, can be read now; whether it is incomplete.
is_readable: Final[_Ask] = p.pn_delivery_readable
is_partial: Final[_Ask] = p.pn_delivery_partial
#: Whether the client has aborted a delivery.
is_aborted: Final[_Ask] = p.pn_delivery_aborted
#: How many bytes of a delivery were received and are not read.
pending_bytes: Final[_Count] = p.pn_delivery_pending
#: Advances a link to its next delivery.
end_of_message: Final[_Do] = p.pn_link_advance
#: Whether the server sends on a link.
is_sender: Final[_Ask] = p.pn_link_is_sender


def read(link: Raw, count: int) -> bytes:
    """Return the next bytes of the current delivery of a link, at most ``count``; b"" if none."""
    length, data = p.pn_link_recv(link, count)
    return bytes(data) if length > 0 else b""


def discard(link: Raw) -> None:
    """Read and discard all deliveries received on an ended link, to free its session's window."""
    while delivery := p.pn_link_current(link):
        p.pn_link_recv(link, p.pn_delivery_pending(delivery))
        if p.pn_delivery_partial(delivery) and not p.pn_delivery_aborted(delivery):
            return
        p.pn_link_advance(link)
        p.pn_delivery_settle(delivery)


def tag(delivery: Raw) -> bytes:
    """Return the delivery-tag that the client has assigned."""
    return bytes(p.bytes2pybytes(p.lib.pn_delivery_tag(delivery)))


# A client that receives.


def send(link: Raw, tag: bytes, message: bytes) -> Raw:
    """Send a message on a link as one delivery, and return the delivery, which is not settled.

    ``tag`` becomes its delivery-tag.
    """
    delivery = p.pn_delivery(link, tag)
    p.pn_link_send(link, message)
    p.pn_link_advance(link)
    return delivery


def unsent_credit(link: Raw) -> int:
    """Return the credit of a link as the client knows it, including messages not yet sent."""
    return int(p.pn_link_credit(link) + p.pn_link_queued(link))


def unsent_bytes(link: Raw) -> int:
    """Return how many bytes of a link's session have not been sent yet."""
    return int(p.pn_session_outgoing_bytes(p.pn_link_session(link)))


def unsent_bytes_of(links: Iterable[Raw]) -> int:
    """Return how many bytes of the links' sessions have not been sent yet; 0 without links."""
    sessions = {p.pn_link_session(link) for link in links}
    return sum(int(p.pn_session_outgoing_bytes(session)) for session in sessions)


# Outcomes.

#: Whether the client has settled a delivery; whether its state at the client has changed.
is_settled: Final[_Ask] = p.pn_delivery_settled
is_updated: Final[_Ask] = p.pn_delivery_updated
#: The state of a delivery at the client, such as ``Delivery.ACCEPTED``; 0 for none.
remote_state: Final[_Count] = p.pn_delivery_remote_state
#: Sends the client a state without fields.
update: Final[Callable[[Raw, int], object]] = p.pn_delivery_update
#: Settles a delivery on this side; the pointer is invalid afterwards.
settle: Final[_Do] = p.pn_delivery_settle


def answer(delivery: Raw, state: int) -> None:
    """Send ``state`` for a delivery, and settle the delivery.

    The state is not sent if the client has settled the delivery already.
    """
    if not p.pn_delivery_settled(delivery):
        p.pn_delivery_update(delivery, state)
    p.pn_delivery_settle(delivery)


# Credit.

#: The credit of a link, given to or by the client; gives the client additional credit.
credit: Final[_Count] = p.pn_link_credit
give_credit: Final[Callable[[Raw, int], object]] = p.pn_link_flow
#: Whether the client drains a link: its credit is to be used or returned.
is_draining: Final[_Ask] = p.pn_link_get_drain
#: Returns the credit of a drained link that has no message.
drained: Final[_Do] = p.pn_link_drained
