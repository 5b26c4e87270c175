"""Transfers, outcomes and credit of AMQP links, by the C functions of proton.

In proton's Python classes an event with its delivery, link and session takes a wrapper object each,
as much time as the queue manager needs for the message. So this module gives names to the C
functions of version 0.40.0, which pyproject.toml pins. Everything rarer, such as an attach or a
rejection, uses the classes: :func:`wrapped`.

A raw delivery or link is a pointer. It is valid until the delivery is settled here, or the
connection has ended, after which nothing is called back (``DeferredCalls``). Pointers to the same
object are equal and hash alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias

import cproton as p
from proton import Collector, Connection, Delivery, Link, Session

#: A pointer to a delivery, or to a link.
Raw: TypeAlias = Any

ACCEPTED: Final = Delivery.ACCEPTED
_WRAPPERS: Final[Mapping[str, Callable[[Any], Any]]] = {
    "pn_connection": lambda event: Connection.wrap(p.pn_event_connection(event)),
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
