"""Helpers of the tests of connections: puts by body, and callbacks that keep their outcomes."""

from __future__ import annotations

import threading
from typing import Any

from mayfly.client.connection import Connection
from mayfly.mqi import constants as c
from mayfly.mqi.descriptor import Descriptor
from mayfly.mqi.errors import MQError
from mayfly.verbs import requests as ask
from mayfly.verbs.messages import Delivery

JOIN_SECONDS = 120.0
BOTH_WAYS = c.MQOO_INPUT_SHARED | c.MQOO_OUTPUT | c.MQOO_BROWSE
PERSISTENT = Descriptor(persistence=c.MQPER_PERSISTENT)
VOLATILE = Descriptor(persistence=c.MQPER_NOT_PERSISTENT)


class Told:
    """A callback that keeps the outcomes it is called with, in order, and the threads."""

    def __init__(self) -> None:
        self.outcomes: list[Any] = []
        self.threads: list[int] = []
        self._grown = threading.Condition()

    def __call__(self, outcome: object) -> None:
        with self._grown:
            self.outcomes.append(outcome)
            self.threads.append(threading.get_ident())
            self._grown.notify_all()

    def wait(self, count: int = 1) -> list[Any]:
        """Wait until it was told so much, and return it."""
        with self._grown:
            assert self._grown.wait_for(lambda: len(self.outcomes) >= count, JOIN_SECONDS)
        return self.outcomes

    @property
    def reasons(self) -> list[int]:
        """The reason codes of what failed."""
        return [outcome.reason for outcome in self.outcomes if isinstance(outcome, MQError)]

    @property
    def deliveries(self) -> list[Delivery]:
        """The outcomes that are deliveries."""
        return [outcome for outcome in self.outcomes if isinstance(outcome, Delivery)]

    @property
    def bodies(self) -> list[bytes]:
        """The bodies of the deliveries."""
        return [delivery.result.message.body for delivery in self.deliveries]


def put(connection: Connection, handle: int, body: bytes, **more: Any) -> bytes:
    """Put a message and return its MsgId."""
    result = connection.put(handle, body, more.pop("descriptor", Descriptor()), **more)
    assert result is not None
    return result.msg_id


def got(connection: Connection, handle: int, **more: Any) -> Delivery:
    """Get a delivery that is there."""
    told = Told()
    connection.begin(ask.GetAny([handle], **more), told)
    [delivery] = told.wait()
    assert isinstance(delivery, Delivery), delivery
    return delivery
