"""Subscriptions of a connection that reconnects: made again, or resumed when they are durable."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mayfly.connection.interface import Connection
from mayfly.connection.reconnection import Reconnection
from mayfly.connection.values import Subscribed
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, mq_error

_WAYS = c.MQSO_CREATE | c.MQSO_RESUME | c.MQSO_ALTER


class ReconnectingTopics:
    """See ``topics.Topics``, whose methods these are."""

    def __init__(self, again: Reconnection) -> None:
        """Stand on a reconnection."""
        self._again, self._run, self._opened = again, again.run, again.objects
        self._temporary: set[str] = set()

    def subscribe(
        self, options: int, *, queue: int = 0, altered: int = 0, held: int = 0, **more: Any
    ) -> Subscribed:
        """MQSUB; raises MQRC_RECONNECT_Q_MGR_REQD for a durable one, which one manager has."""
        self._check(is_durable=bool(options & c.MQSO_DURABLE))
        opened = self._opened

        def subscribe(now: Connection) -> Subscribed:
            return now.topics.subscribe(
                options,
                queue=opened.inner(queue),
                altered=opened.inner_subscription(altered) if altered else 0,
                held=opened.inner(held),
                **more,
            )

        again = options & ~_WAYS
        if options & c.MQSO_DURABLE:
            again |= c.MQSO_RESUME
        else:
            # Retained publications have come at the first subscription already.
            again |= c.MQSO_CREATE | c.MQSO_NEW_PUBLICATIONS_ONLY

        def resubscribe(now: Connection, inner_queue: int) -> Subscribed:
            return now.topics.subscribe(again, queue=inner_queue, **more)

        return self._run(subscribe, enter=lambda made: opened.subscribe(made, resubscribe, queue))

    def join(self, topic: str, *, is_durable: bool = False, **more: Any) -> Subscribed:
        """Open the subscription of a name as JMS has it; durable ones as :meth:`subscribe`."""
        self._check(is_durable=is_durable)

        def join(now: Connection) -> Subscribed:
            return now.topics.join(topic, is_durable=is_durable, **more)

        def enter(made: Subscribed) -> Subscribed:
            return self._opened.subscribe(made, lambda now, _queue: join(now), c.MQHO_NONE)

        return self._run(join, enter=enter)

    def is_open(self, number: int) -> bool:
        """Return True if a subscription is open here."""
        inner = self._opened.inner_subscription
        return self._run(lambda now: now.topics.is_open(inner(number)))

    def remove(self, name: str) -> None:
        """Remove a durable subscription by its name."""
        self._run(lambda now: now.topics.remove(name))

    def belong_to(self, owner: str | int) -> None:
        """Set the owner of this conversation, and of those that follow on new connections."""
        self._keep("the owner", lambda now: now.topics.belong_to(owner))

    def claim(self, client_id: str) -> None:
        """Be the one conversation under a client id, also when it was made again."""
        self._keep(f"client id {client_id!r}", lambda now: now.topics.claim(client_id))

    def make_temporary(self) -> str:
        """Make a topic string; it stays. Retained publications there end with each connection."""
        topic = self._run(lambda now: now.topics.make_temporary())
        self._temporary.add(topic)
        return topic

    def delete_temporary(self, topic: str) -> None:
        """Delete a topic that was made here, on whatever connection."""
        try:
            self._run(lambda now: now.topics.delete_temporary(topic))
        except MQError as error:
            if topic not in self._temporary or error.reason != rc.MQRC_UNKNOWN_OBJECT_NAME:
                raise
        self._temporary.discard(topic)

    def close(self, number: int, *, remove: bool = False) -> None:
        """Close a subscription."""
        inner = self._opened.inner_subscription
        self._run(lambda now: now.topics.close(inner(number), remove=remove))
        self._opened.drop_subscription(number)

    def request_retained(self, number: int) -> int:
        """MQSUBRQ."""
        inner = self._opened.inner_subscription
        return self._run(lambda now: now.topics.request_retained(inner(number)))

    def _keep(self, what: str, verb: Callable[[Connection], None]) -> None:
        self._run(verb, enter=lambda _done: self._opened.remember(what, verb))

    def _check(self, *, is_durable: bool) -> None:
        """Raise MQRC_RECONNECT_Q_MGR_REQD for a durable subscription, which one manager has."""
        if is_durable and not self._again.is_to_same:
            raise mq_error(rc.MQRC_RECONNECT_Q_MGR_REQD, "a durable subscription")
