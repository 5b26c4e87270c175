"""The open objects of a connection that reconnects: each is opened again, under its number."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import TypeAlias

from mayfly.client.connection.interface import Connection
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, ObjectError, mq_error
from mayfly.verbs.requests import Opened, Subscribed

#: Opens an object on a new connection, by names as ``Numbers.renamed`` has them.
Reopen: TypeAlias = "Callable[[Connection, Numbers], Opened]"
#: Makes or resumes a subscription on a new connection, for publications to an open queue.
Resubscribe: TypeAlias = Callable[[Connection, int], Subscribed]

#: The connection that was lost may hold these until its server notices: they are tried again.
HELD_BY_THE_LOST = frozenset({rc.MQRC_OBJECT_IN_USE, rc.MQRC_SUBSCRIPTION_IN_USE})


@dataclass
class Numbers:
    """Numbers of the program, with those of one connection behind them.

    ``renamed`` has the managed queues that subscriptions had before, with their names of now.
    ``whats`` are the words for what is open there.
    """

    handles: dict[int, int] = field(default_factory=dict)
    subscriptions: dict[int, int] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    whats: set[str] = field(default_factory=set)

    def inner(self, handle: int) -> int:
        """Return the number of an object on the connection; raises MQRC_HOBJ_ERROR."""
        if handle == c.MQHO_NONE:
            return handle
        known = self.handles.get(handle)
        if known is None:
            raise mq_error(rc.MQRC_HOBJ_ERROR, f"handle {handle} is not open on this connection")
        return known

    def inner_subscription(self, number: int) -> int:
        """Return the number of a subscription on the connection; raises MQRC_HOBJ_ERROR."""
        known = self.subscriptions.get(number)
        if known is None:
            raise mq_error(rc.MQRC_HOBJ_ERROR, f"subscription {number} is not open here")
        return known


@dataclass
class OpenedObjects:
    """Everything that is open, and how it is made again, in the order in which it was opened."""

    now: Numbers = field(default_factory=Numbers)
    #: By the words of an error message.
    _again: dict[str, Callable[[Connection, Numbers], None]] = field(default_factory=dict)
    #: The handle of the queue of each subscription.
    _queues: dict[int, int] = field(default_factory=dict)
    _handles: count[int] = field(default_factory=lambda: count(1))
    _numbers: count[int] = field(default_factory=lambda: count(1))

    def enter(self, opened: Opened, reopen: Reopen) -> Opened:
        """Give an object that was opened a number that stays."""
        handle = next(self._handles)

        def again(connection: Connection, made: Numbers) -> None:
            made.handles[handle] = reopen(connection, made).handle

        self.now.handles[handle] = opened.handle
        self._again[_object(handle)] = again
        return opened._replace(handle=handle)

    def subscribe(self, made: Subscribed, resubscribe: Resubscribe, queue: int) -> Subscribed:
        """Give a subscription and the handle of its queue numbers that stay.

        ``queue`` is the handle that its program gave for its publications, 0 for a managed queue.
        """
        number = next(
            (own for own, inner in self.now.subscriptions.items() if inner == made.number), 0
        )
        if number:
            # One that was altered has a new handle, and is made again as it is now.
            handle = self._queues[number]
        else:
            number, handle = next(self._numbers), self._outer_of(made.handle)
        if handle != c.MQHO_NONE:
            self.now.handles[handle] = made.handle
        self.now.subscriptions[number] = made.number
        self._queues[number] = handle
        told = made.facts.queue

        def again(connection: Connection, numbers: Numbers) -> None:
            anew = resubscribe(connection, numbers.inner(queue))
            numbers.subscriptions[number] = anew.number
            if handle != c.MQHO_NONE:
                numbers.handles[handle] = anew.handle
            if anew.facts.queue != told:
                numbers.renamed[told] = anew.facts.queue

        self._again[_subscription(number)] = again
        return made._replace(number=number, handle=handle)

    def remember(self, what: str, again: Callable[[Connection], None]) -> None:
        """Note what else is done on a new connection; ``what`` replaces one of the same words."""
        self._again[what] = lambda connection, _made: again(connection)

    def inner(self, handle: int) -> int:
        """Return the number of now of an object; raises MQRC_HOBJ_ERROR."""
        return self.now.inner(handle)

    def has(self, handle: int) -> bool:
        """Return True if the object of a handle is open."""
        return handle in self.now.handles

    def inner_subscription(self, number: int) -> int:
        """Return the number of now of a subscription; raises MQRC_HOBJ_ERROR."""
        return self.now.inner_subscription(number)

    def drop(self, handle: int) -> None:
        """Forget an object that was closed."""
        self.now.handles.pop(handle, None)
        self._again.pop(_object(handle), None)

    def drop_subscription(self, number: int) -> None:
        """Forget a subscription that was closed."""
        self.now.subscriptions.pop(number, None)
        self._queues.pop(number, None)
        self._again.pop(_subscription(number), None)

    def open_again(self, connection: Connection, made: Numbers) -> None:
        """Open everything on a new connection that ``made`` does not have yet.

        Raises MQRC_RECONNECT_FAILED for what cannot be opened any more, unless the connection
        breaks meanwhile; MQRC_OBJECT_IN_USE and MQRC_SUBSCRIPTION_IN_USE for what the connection
        that was lost may still have.
        """
        for what, again in list(self._again.items()):
            if what not in made.whats:
                with _explained(what, connection):
                    again(connection, made)
                made.whats.add(what)

    def install(self, made: Numbers) -> bool:
        """Let the numbers of a new connection be those of now; False when something is missing.

        At once: a verb on the lost connection meets numbers of one connection, never of two.
        """
        if not self._again.keys() <= made.whats:
            return False
        self.now = made
        return True

    def _outer_of(self, inner: int) -> int:
        """Return the handle of a queue that is open already, else a new one; 0 stays 0."""
        if inner == c.MQHO_NONE:
            return inner
        known = (own for own, each in self.now.handles.items() if each == inner)
        return next(known, 0) or next(self._handles)


def _object(handle: int) -> str:
    return f"handle {handle}"


def _subscription(number: int) -> str:
    return f"subscription {number}"


@contextmanager
def _explained(what: str, connection: Connection) -> Iterator[None]:
    """Say which object could not be opened again."""
    try:
        yield
    except MQError as error:
        if connection.is_broken or error.reason in HELD_BY_THE_LOST:
            raise
        said = f"{what} cannot be opened again: {error}"
        raise mq_error(rc.MQRC_RECONNECT_FAILED, said) from error


def reopen_dynamic(
    open_as: Callable[[Connection, str, str], Opened], model: str, made: str
) -> Reopen:
    """Return what opens a dynamic queue again: the one that is still there, else a new one.

    ``open_as`` opens with the name and the DynamicQName that it is given.
    """

    def reopen(connection: Connection, _numbers: Numbers) -> Opened:
        try:
            return open_as(connection, made, made)
        except ObjectError as error:
            if error.reason != rc.MQRC_UNKNOWN_OBJECT_NAME:
                raise
        return open_as(connection, model, made)

    return reopen
