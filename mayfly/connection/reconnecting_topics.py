"""Subscriptions of a connection that reconnects: made again, or resumed when they are durable."""

from __future__ import annotations

from typing import Any

from mayfly.connection.interface import Connection
from mayfly.connection.reconnection import Reconnection
from mayfly.connection.topics import Subscribed
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import mq_error

_WAYS = c.MQSO_CREATE | c.MQSO_RESUME | c.MQSO_ALTER


class ReconnectingTopics:
    """The verbs of ``interface.Topics`` that MQSUB, MQCLOSE and MQSUBRQ are."""

    def __init__(self, again: Reconnection) -> None:
        """Stand on a reconnection."""
        self._again, self._run, self._opened = again, again.run, again.objects

    def subscribe(
        self, options: int, *, queue: int = 0, altered: int = 0, held: int = 0, **more: Any
    ) -> Subscribed:
        """MQSUB; raises MQRC_RECONNECT_Q_MGR_REQD for a durable one, which one manager has."""
        if options & c.MQSO_DURABLE and not self._again.is_to_same:
            raise mq_error(rc.MQRC_RECONNECT_Q_MGR_REQD, "a durable subscription")
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
            # What is retained has come already.
            again |= c.MQSO_CREATE | c.MQSO_NEW_PUBLICATIONS_ONLY

        def resubscribe(now: Connection, inner_queue: int) -> Subscribed:
            return now.topics.subscribe(again, queue=inner_queue, **more)

        return opened.subscribe(self._run(subscribe), resubscribe, queue)

    def close(self, number: int, *, remove: bool = False) -> None:
        """Close a subscription."""
        inner = self._opened.inner_subscription
        self._run(lambda now: now.topics.close(inner(number), remove=remove))
        self._opened.drop_subscription(number)

    def request_retained(self, number: int) -> int:
        """MQSUBRQ."""
        inner = self._opened.inner_subscription
        return self._run(lambda now: now.topics.request_retained(inner(number)))
