"""Subscriptions as a connection has them: by number, whatever their queue manager."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from mayfly.connection.values import SubscriptionFacts
from mayfly.mqi import constants as c


class Subscribed(NamedTuple):
    """A subscription that is open: its number, and the handle its publications are got with."""

    number: int
    handle: int
    facts: SubscriptionFacts


class Topics(Protocol):
    """Subscriptions of a connection, by number, and topics that are its own."""

    def subscribe(
        self,
        options: int,
        *,
        topic: str = "",
        topic_object: str = "",
        name: str = "",
        queue: int = c.MQHO_NONE,
        selector: str = "",
        user_data: str = "",
        correl_id: bytes | None = b"",
        expiry_tenths: int = c.MQEI_UNLIMITED,
        priority: int = c.MQPRI_PRIORITY_AS_PUBLISHED,
        altered: int = 0,
        held: int = c.MQHO_NONE,
    ) -> Subscribed:
        """MQSUB with MQSO options: make a subscription, resume one or alter one.

        ``queue`` is the open queue for one that is not managed. ``correl_id`` empty is one of its
        own, None the publisher's. ``altered`` is a subscription that is open here and may be
        altered, ``held`` the handle of its queue. Raises MQRC_OPTIONS_ERROR, MQRC_SUB_NAME_ERROR,
        MQRC_NO_SUBSCRIPTION, MQRC_SUB_ALREADY_EXISTS, MQRC_SUBSCRIPTION_IN_USE,
        MQRC_IDENTITY_MISMATCH, MQRC_…_NOT_ALTERABLE, MQRC_HOBJ_ERROR, MQRC_INVALID_DESTINATION.
        """

    def close(self, number: int, *, remove: bool = False) -> None:
        """Close a subscription; a durable one stays unless it is to be removed.

        Raises MQRC_HOBJ_ERROR, MQRC_SUBSCRIPTION_IN_USE for one to be removed that others share.
        """

    def request_retained(self, number: int) -> int:
        """MQSUBRQ: ask for what is retained; returns how many come, or raises 2437."""

    def join(
        self,
        topic: str,
        *,
        name: str = "",
        is_durable: bool = False,
        is_shared: bool = False,
        no_local: bool = False,
        selector: str = "",
    ) -> Subscribed:
        """Open the subscription of a name as JMS has it: join it, resume it or make it.

        Without a name it is one of its own. The handle is that of its managed queue, open for input
        and to be closed with the subscription; MQHO_NONE where a definition (DEFINE SUB) names
        another queue. A durable one that asks for something else gives way, with
        what has come for it. ``no_local`` leaves out what :meth:`belong_to` says is its own. Raises
        MQRC_SUBSCRIPTION_IN_USE for one that is to give way, or is not shared, while it is open or
        has messages that are not acknowledged; MQRC_SUB_ALREADY_EXISTS when one is shared and the
        other is not, or an open one asks for something else; MQRC_SUB_NAME_ERROR,
        MQRC_TOPIC_STRING_ERROR, MQRC_SELECTOR_SYNTAX_ERROR, MQRC_NOT_AUTHORIZED.
        """

    def is_open(self, number: int) -> bool:
        """Tell whether a subscription is open here, and neither removed nor expired."""

    def remove(self, name: str) -> None:
        """Remove a durable subscription by its name, with what has come for it.

        Raises MQRC_NO_SUBSCRIPTION, MQRC_SUBSCRIPTION_IN_USE while it is open or has messages that
        are not acknowledged.
        """

    def belong_to(self, owner: str | int) -> None:
        """Say whose conversation this is: ``no_local`` leaves out what the same owner publishes.

        An owner is a client id, or the number of a conversation that several belong to. With a
        client id a durable subscription made with ``no_local`` leaves out the client's
        publications also while it is not open.
        """

    def claim(self, client_id: str) -> None:
        """Be the one conversation under a client id, until it is closed; it belongs to it then.

        Raises MQRC_OBJECT_IN_USE while another has it.
        """

    def make_temporary(self) -> str:
        """Make a topic string that nobody else makes; what is retained there ends with this."""

    def delete_temporary(self, topic: str) -> None:
        """Delete a topic that :meth:`make_temporary` has made here, with what is retained there.

        Raises MQRC_UNKNOWN_OBJECT_NAME for any other, MQRC_OBJECT_IN_USE while it has a subscriber.
        """
