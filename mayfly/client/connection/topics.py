"""Subscriptions as a connection has them: by number, whatever their queue manager."""

from __future__ import annotations

import re
from operator import index
from typing import Final

from mayfly.mqi import constants as c
from mayfly.verbs import requests as ask
from mayfly.verbs.requests import Calls, Subscribed

#: The id is one of 24 bytes, as messages have; other topics below TEMP are anybody's.
_TEMPORARY: Final = re.compile(r"TEMP/[0-9A-F]{48}")
#: Characters of a client id that separate the parts of a subscription's name.
_QUOTED: Final = str.maketrans({"%": "%25", ":": "%3A"})


class Topics:
    """Subscriptions of a connection, by number, and topics that are its own."""

    def __init__(self, call: Calls) -> None:
        """Make requests by ``Connection.call``."""
        self._call = call

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
        return self._call(
            ask.Subscribe(
                options,
                topic,
                topic_object,
                name,
                index(queue),
                selector,
                user_data,
                correl_id,
                expiry_tenths,
                priority,
                altered,
                index(held),
            )
        )

    def close(self, number: int, *, remove: bool = False) -> None:
        """Close a subscription; a durable one stays unless it is to be removed.

        Raises MQRC_HOBJ_ERROR, MQRC_SUBSCRIPTION_IN_USE for one to be removed that others share.
        """
        self._call(ask.CloseSubscription(number, remove))

    def request_retained(self, number: int) -> int:
        """MQSUBRQ: ask for what is retained; returns how many come, or raises 2437."""
        return self._call(ask.RequestRetained(number))

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

        Without a name the subscription is the caller's alone. The handle is that of its managed
        queue, open for input and to be closed with the subscription; MQHO_NONE where a definition
        (DEFINE SUB) names another queue. A durable subscription of the name with another topic,
        selector or ``no_local`` is removed with its messages, and made anew. ``no_local`` leaves
        out publications of the same owner (:meth:`belong_to`).

        Raises MQRC_SUBSCRIPTION_IN_USE for one that is to be removed, or is not shared, while it is
        open or has messages that are not acknowledged; MQRC_SUB_ALREADY_EXISTS when one is shared
        and the other is not, or an open one has another topic or selector; MQRC_SUB_NAME_ERROR,
        MQRC_TOPIC_STRING_ERROR, MQRC_SELECTOR_SYNTAX_ERROR, MQRC_NOT_AUTHORIZED.
        """
        return self._call(
            ask.JoinSubscription(topic, name, is_durable, is_shared, no_local, selector)
        )

    def is_open(self, number: int) -> bool:
        """Return True if a subscription is open here, and neither removed nor expired."""
        return self._call(ask.IsSubscriptionOpen(number))

    def remove(self, name: str) -> None:
        """Remove a durable subscription by its name, with its messages.

        Raises MQRC_NO_SUBSCRIPTION, MQRC_SUBSCRIPTION_IN_USE while it is open or has messages that
        are not acknowledged.
        """
        self._call(ask.RemoveSubscription(name))

    def belong_to(self, owner: str | int) -> None:
        """Set the owner of this conversation: ``no_local`` leaves out publications of that owner.

        An owner is a client id, or the number of a conversation that several belong to. With a
        client id a durable subscription made with ``no_local`` leaves out the client's
        publications also while it is not open.
        """
        self._call(ask.BelongTo(owner))

    def claim(self, client_id: str) -> None:
        """Take a client id until the conversation is closed; the client id becomes its owner.

        Raises MQRC_OBJECT_IN_USE while another conversation has it.
        """
        self._call(ask.ClaimClientId(client_id))

    def make_temporary(self) -> str:
        """Make a unique topic string; its retained publication ends with this conversation."""
        return self._call(ask.MakeTemporaryTopic())

    def delete_temporary(self, topic: str) -> None:
        """Delete a topic that :meth:`make_temporary` has made here, with its retained publication.

        Raises MQRC_UNKNOWN_OBJECT_NAME for any other, MQRC_OBJECT_IN_USE while it has a subscriber.
        """
        self._call(ask.DeleteTemporaryTopic(topic))


def quoted_client_id(client_id: str) -> str:
    """Return a client id for the name of a subscription, where a colon and its own name follow.

    So no client has the names of another: ``a`` with ``b:c``, and ``a:b`` with ``c``.
    """
    return client_id.translate(_QUOTED)


def is_temporary_topic(name: str) -> bool:
    """Return True if a topic string has the form of those that ``make_temporary`` makes."""
    return _TEMPORARY.fullmatch(name) is not None
