"""What a connection that reconnects has open: how each object is opened again, under its number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import TypeAlias

from mayfly.connection.interface import Connection, Opened
from mayfly.connection.topics import Subscribed
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, ObjectError, mq_error

#: Opens an object on a new connection.
Reopen: TypeAlias = Callable[[Connection], Opened]
#: Makes or resumes a subscription on a new connection.
Resubscribe: TypeAlias = Callable[[Connection, int], Subscribed]


@dataclass(slots=True)
class _Object:
    inner: int
    #: None for the queue of a subscription, which the subscription brings.
    reopen: Reopen | None


@dataclass(slots=True)
class _Subscription:
    inner: int
    handle: int
    resubscribe: Resubscribe
    #: The handle that its program gave for its publications, 0 for a managed queue.
    queue: int


@dataclass
class OpenedObjects:
    """Numbers of the program, with those of the connection of now behind them."""

    _objects: dict[int, _Object] = field(default_factory=dict)
    _subscriptions: dict[int, _Subscription] = field(default_factory=dict)
    _handles: count[int] = field(default_factory=lambda: count(1))
    _numbers: count[int] = field(default_factory=lambda: count(1))

    def enter(self, opened: Opened, reopen: Reopen) -> Opened:
        """Give an object that was opened a number that stays."""
        handle = next(self._handles)
        self._objects[handle] = _Object(opened.handle, reopen)
        return opened._replace(handle=handle)

    def subscribe(self, made: Subscribed, resubscribe: Resubscribe, queue: int) -> Subscribed:
        """Give a subscription and the handle of its queue numbers that stay."""
        for number, known in self._subscriptions.items():
            if known.inner == made.number:
                # One that was altered has a new handle, and is made again as it is now.
                known.resubscribe = resubscribe
                self._objects[known.handle].inner = made.handle
                return made._replace(number=number, handle=known.handle)
        handle = next(
            (own for own, known in self._objects.items() if known.inner == made.handle), 0
        )
        if not handle:
            handle = next(self._handles)
            self._objects[handle] = _Object(made.handle, None)
        number = next(self._numbers)
        self._subscriptions[number] = _Subscription(made.number, handle, resubscribe, queue)
        return made._replace(number=number, handle=handle)

    def inner(self, handle: int) -> int:
        """Return the number of now of an object; raises MQRC_HOBJ_ERROR."""
        if handle == c.MQHO_NONE:
            return handle
        known = self._objects.get(handle)
        if known is None:
            raise mq_error(rc.MQRC_HOBJ_ERROR, f"handle {handle} is not open on this connection")
        return known.inner

    def has(self, handle: int) -> bool:
        """Tell whether a handle is one of an open object."""
        return handle in self._objects

    def inner_subscription(self, number: int) -> int:
        """Return the number of now of a subscription; raises MQRC_HOBJ_ERROR."""
        known = self._subscriptions.get(number)
        if known is None:
            raise mq_error(rc.MQRC_HOBJ_ERROR, f"subscription {number} is not open here")
        return known.inner

    def drop(self, handle: int) -> None:
        """Forget an object that was closed."""
        self._objects.pop(handle, None)

    def drop_subscription(self, number: int) -> None:
        """Forget a subscription that was closed."""
        self._subscriptions.pop(number, None)

    def open_again(self, connection: Connection) -> None:
        """Open everything on a new connection, in the order in which it was opened.

        Raises MQRC_RECONNECT_FAILED for what cannot be opened any more, unless the connection
        breaks meanwhile.
        """
        for handle, known in self._objects.items():
            if known.reopen is not None:
                with _explained(f"handle {handle}", connection):
                    known.inner = known.reopen(connection).handle
        for number, subscription in self._subscriptions.items():
            with _explained(f"subscription {number}", connection):
                queue = self.inner(subscription.queue)
                made = subscription.resubscribe(connection, queue)
                subscription.inner = made.number
                self._objects[subscription.handle].inner = made.handle


@contextmanager
def _explained(what: str, connection: Connection) -> Iterator[None]:
    """Say which object could not be opened again."""
    try:
        yield
    except MQError as error:
        if connection.is_broken:
            raise
        said = f"{what} cannot be opened again: {error}"
        raise mq_error(rc.MQRC_RECONNECT_FAILED, said) from error


def reopen_dynamic(
    open_as: Callable[[Connection, str, str], Opened], model: str, made: str
) -> Reopen:
    """Return what opens a dynamic queue again: the one that is still there, else a new one.

    ``open_as`` opens with the name and the DynamicQName that it is given.
    """

    def reopen(connection: Connection) -> Opened:
        with suppress(ObjectError):
            return open_as(connection, made, made)
        return open_as(connection, model, made)

    return reopen
