"""An open subscription of a client."""

from __future__ import annotations

from mayfly.client.asking import from_queue, get_options
from mayfly.client.connection import Connection
from mayfly.lifetime.times import tenths_of_ms
from mayfly.lifetime.window import check_life_ms
from mayfly.mqi import constants as c
from mayfly.mqi.errors import MQError, NoMessage
from mayfly.verbs import requests as ask
from mayfly.verbs.checks import Identifier, stored_id
from mayfly.verbs.facts import SubscriptionFacts
from mayfly.verbs.messages import Message
from mayfly.verbs.requests import Subscribed


class ClientSubscription:
    """A subscription and the queue of its publications; used by the thread of its client."""

    def __init__(self, connection: Connection, opened: Subscribed, get_option: int) -> None:
        """Take a subscription that is open; ``get_option`` is that of its gets and syncpoint."""
        self._connection, self._opened, self._get_option = connection, opened, get_option

    @property
    def facts(self) -> SubscriptionFacts:
        """Its attributes at its opening: name, topic, queue, CorrelId and the rest."""
        return self._opened.facts

    def get(self, *, wait_ms: int = 0) -> Message | None:
        """Take the next publication, or None when none came within ``wait_ms`` (-1: for ever)."""
        options = get_options(wait_ms) | self._get_option
        try:
            return self._connection.get(self._opened.handle, options, wait_ms=wait_ms).message
        except NoMessage:
            return None

    def request_retained(self) -> int:
        """Ask for what is retained (MQSUBRQ); returns how many come, or raises 2437."""
        return self._connection.call(ask.RequestRetained(self._opened.number))

    def close(self, *, remove: bool = False) -> None:
        """Close it; a durable one stays and collects, unless it is to be removed.

        The end of its client has closed it already.
        """
        if not self._connection.is_open:
            return
        self._connection.call(ask.CloseSubscription(self._opened.number, remove=remove))
        if self._connection.has_open(self._opened.handle):
            self._connection.call(ask.CloseObject(self._opened.handle))


def subscribed(
    connection: Connection,
    topic: str,
    *,
    topic_object: str,
    name: str,
    durable: bool,
    shared: bool,
    no_local: bool,
    queue: str,
    selector: str,
    time_to_live_ms: int | None,
    correl_id: Identifier | None,
    retained: bool,
    on_request: bool,
) -> Subscribed:
    """MQSUB; raises as ``requests.Subscribe``, ValueError for what a join cannot have."""
    check_life_ms(time_to_live_ms)
    if shared or no_local:
        others = topic_object, queue, correl_id, on_request, time_to_live_ms, not retained
        if any(others) or correl_id is None:
            raise ValueError("shared and no_local go with name, durable and selector alone")
        return connection.call(
            ask.JoinSubscription(topic, name, durable, shared, no_local, selector)
        )
    options = c.MQSO_CREATE | (0 if queue else c.MQSO_MANAGED)
    options |= c.MQSO_DURABLE if durable else c.MQSO_NON_DURABLE
    options |= 0 if retained else c.MQSO_NEW_PUBLICATIONS_ONLY
    options |= c.MQSO_PUBLICATIONS_ON_REQUEST if on_request else 0
    life = c.MQEI_UNLIMITED if time_to_live_ms is None else tenths_of_ms(time_to_live_ms)
    handle = from_queue(queue, None).open(connection) if queue else c.MQHO_NONE
    try:
        return connection.call(
            ask.Subscribe(
                options,
                topic=topic,
                topic_object=topic_object,
                name=name,
                queue=handle,
                selector=selector,
                correl_id=None if correl_id is None else stored_id(correl_id, "correl_id"),
                expiry_tenths=life,
            )
        )
    except MQError:
        if handle:
            connection.call(ask.CloseObject(handle))
        raise


def resumed(connection: Connection, name: str) -> Subscribed:
    """MQSUB of a durable subscription that is there; raises as ``requests.Subscribe``."""
    return connection.call(
        ask.Subscribe(c.MQSO_RESUME | c.MQSO_MANAGED | c.MQSO_DURABLE, name=name)
    )
