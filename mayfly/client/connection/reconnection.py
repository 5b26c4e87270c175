"""Connecting again after a loss: attempts, and what was open is opened again (docs/CLIENTS.md)."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import NamedTuple, TypeAlias, TypeVar

from mayfly.client.connection.endpoint import Reconnect
from mayfly.client.connection.interface import Connection
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQCA_Q_MGR_IDENTIFIER
from mayfly.mqi.errors import (
    ConnectionBroken,
    LostAnswer,
    MQError,
    NotAuthorized,
    ObjectError,
    mq_error,
)
from mayfly.runtime import Event, Runtime, elapsed_ms
from mayfly.verbs import requests as ask
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


_T = TypeVar("_T")
_LOG = logging.getLogger("mayfly.client")
#: A server that drains ends waits with these reasons. It ends the connection later, when the unit
#: of work has ended.
DRAINED = frozenset({rc.MQRC_Q_MGR_QUIESCING, rc.MQRC_CONNECTION_QUIESCING})
_FINAL = frozenset({rc.MQRC_RECONNECT_FAILED, rc.MQRC_RECONNECT_QMID_MISMATCH})
#: How often a connection that is being drained is looked at.
_LOOK_SECONDS = 0.02


class Patience(NamedTuple):
    """How long a client tries to connect again, as IBM MQ does unless it is told otherwise.

    The first attempt is made at once. The waits between the others double, from ``first_ms`` to
    ``longest_ms``.
    """

    first_ms: int = 1_000
    longest_ms: int = 25_000
    total_ms: int = 1_800_000


USUAL_PATIENCE = Patience()


class Attempts(NamedTuple):
    """The part of an owner of several connections in their attempts to connect again.

    ``on_change`` is called on the thread that connects again: with MQRC_RECONNECTING before the
    first attempt, then with MQRC_RECONNECTED or the error of the last attempt. ``ends`` is an event
    that ends all attempts; verbs that wait for a new connection then raise.
    """

    on_change: Callable[[MQError], object] | None = None
    ends: Event | None = None


USUAL_ATTEMPTS = Attempts()


class Lost(Exception):
    """A verb met a connection that was lost, and that has been made again since."""

    def __init__(self, error: ConnectionBroken) -> None:
        super().__init__(error)
        self.is_in_doubt = isinstance(error, LostAnswer)


class Reconnection:
    """The connection of now, and the way to the next one; any thread may use it."""

    def __init__(
        self,
        connect: Callable[[], Connection],
        how: Reconnect,
        patience: Patience,
        attempts: Attempts = USUAL_ATTEMPTS,
    ) -> None:
        """Connect; raises as ``connect``."""
        self._connect, self._patience = connect, patience
        self._on_change = attempts.on_change
        self.is_to_same = how is Reconnect.QUEUE_MANAGER
        self.runtime = Runtime()
        self.objects = OpenedObjects()
        self._lock = self.runtime.reentrant_lock("reconnect")
        #: Held for moments, so that open objects and unit of work are seen with one connection.
        self._state = self.runtime.lock("reconnected")
        #: Whether there are no attempts any more, and whether the program has closed it.
        self._ends = attempts.ends or self.runtime.event()
        self.is_closed = False
        #: The connection of now and its number: one tuple, so that no thread sees halves of two.
        self.now: tuple[Connection, int] = connect(), 0
        self._identifier = _identifier_of(self.now[0]) if self.is_to_same else ""
        #: Why there will be no other connection.
        self.failure: MQError | None = None
        #: Whether the unit of work has something, and whether it was lost with its connection.
        self.has_work = False
        self.is_backed_out = False
        #: Numbers of two units of work: that of verbs that are called now, and that of verbs that
        #: are begun on a connection now. A verb with a callback may be begun later than called.
        self.unit = self._begun_unit = 0

    def run(
        self,
        verb: Callable[[Connection], _T],
        *,
        in_unit: bool = False,
        enter: Callable[[_T], _T] | None = None,
    ) -> _T:
        """Run a verb, on a new connection when the one of now is lost.

        ``in_unit`` is True for a verb in the unit of work. ``enter`` takes note of the result, and
        returns it, while the connection of the result is still the one of now.

        Raises MQRC_BACKED_OUT while the unit of work that was lost is neither committed nor backed
        out by its program; LostAnswer with MQRC_CALL_INTERRUPTED when the verb may have taken
        effect; MQRC_RECONNECT_FAILED, MQRC_RECONNECT_QMID_MISMATCH and
        MQRC_RECONNECT_TIMED_OUT when there is no new connection.
        """
        while True:
            try:
                return self.attempt(verb, in_unit=in_unit, enter=enter)
            except Lost as lost:
                if lost.is_in_doubt and not in_unit:
                    raise interrupted() from lost

    def attempt(
        self,
        verb: Callable[[Connection], _T],
        *,
        in_unit: bool = False,
        enter: Callable[[_T], _T] | None = None,
    ) -> _T:
        """Run a verb once; raises Lost when there is a new connection since."""
        if in_unit and self.is_backed_out:
            raise backed_out()
        connection, number = self.now
        if self.is_lost(connection):
            # Seen before the verb is sent: no answer of it can be lost.
            self.again(number)
            raise Lost(ConnectionBroken(rc.MQRC_CONNECTION_BROKEN))
        try:
            result = verb(connection)
        except ConnectionBroken as error:
            if not self.is_lost(connection):
                raise
            try:
                self.again(number)
            except MQError as failure:
                if isinstance(error, LostAnswer):
                    raise interrupted() from failure
                raise
            raise Lost(error) from error
        if in_unit:
            self.note_work(number)
        if enter is None:
            return result
        with self._state:
            if self.now[1] != number:
                raise Lost(ConnectionBroken(rc.MQRC_CONNECTION_BROKEN))
            return enter(result)

    def note_work(self, number: int) -> None:
        """Note that the unit of work has something, by a verb on the connection of a number.

        When another thread has connected again since, that is lost: the next commit says so.
        """
        with self._state:
            if self.now[1] == number:
                self.has_work = True
            else:
                self.is_backed_out = True

    def wait(self, verb: Callable[[Connection], _T], *, in_unit: bool = False) -> _T:
        """Run a verb that may wait, again on each new connection.

        A server that drains ends waits; with a unit of work the program is told so, to end it.
        """
        while True:
            try:
                return self.attempt(verb, in_unit=in_unit)
            except Lost:
                continue
            except ConnectionBroken as error:
                if error.reason not in DRAINED or self.has_work:
                    raise
                self.wait_for_loss(self.now[0])

    def begin_work(self, connection: Connection, unit: int) -> None:
        """Let a unit of work have something before that is known.

        Raises MQRC_BACKED_OUT for a unit of work that was lost, also when its program has ended it
        since, and MQRC_CONNECTION_BROKEN when the connection is not the one of now.
        """
        with self._state:
            if self.is_backed_out or self._begun_unit != unit:
                raise backed_out()
            if self.now[0] is not connection:
                raise mq_error(rc.MQRC_CONNECTION_BROKEN, "there is another one since")
            self.has_work = True

    def next_unit(self) -> int:
        """Return the unit of work; verbs that are called from now on belong to the next one."""
        with self._state:
            self.unit += 1
            return self.unit - 1

    def end_unit(self, unit: int) -> tuple[Connection, bool]:
        """Return the connection that has a unit of work, and whether anything is in it.

        The next one begins there. Raises MQRC_BACKED_OUT for one that was lost.
        """
        with self._state:
            is_lost, self.is_backed_out = self.is_backed_out or self._begun_unit > unit, False
            had_work, self.has_work = self.has_work, False
            self._begun_unit = max(self._begun_unit, unit + 1)
            if is_lost:
                raise backed_out()
            return self.now[0], had_work

    def is_lost(self, connection: Connection) -> bool:
        """Return True if a connection is gone, and another one may be made in its place."""
        return connection.is_broken and not self.has_ended

    def again(self, number: int) -> None:
        """Connect again, unless another thread has done so since the connection of a number."""
        with self._lock:
            if self.failure is not None:
                raise self.failure
            if self.has_ended:
                raise _closed()
            if self.now[1] != number:
                return
            _LOG.info("the connection is lost; connecting again (MQRC_RECONNECTING)")
            self._tell(mq_error(rc.MQRC_RECONNECTING, f"to {self.now[0].name}"))
            try:
                self._again(number)
            except MQError as error:
                self.failure = error
                if not self.has_ended:
                    self._tell(error)
                raise
            _LOG.info("connected again to %s (MQRC_RECONNECTED)", self.now[0].name)
            self._tell(mq_error(rc.MQRC_RECONNECTED, f"to {self.now[0].name}"))

    def wait_for_loss(self, connection: Connection) -> None:
        """Wait until a connection that its server drains is gone, or its program closes it."""
        while not (self.is_lost(connection) or self.has_ended):
            self._ends.wait(_LOOK_SECONDS)

    def close(self) -> Connection:
        """End all attempts; returns the connection of now."""
        self.is_closed = True
        self._ends.set()
        return self.now[0]

    @property
    def has_ended(self) -> bool:
        """Whether there are no attempts any more."""
        return self._ends.is_set()

    def _again(self, number: int) -> None:
        until_ms, wait_ms = elapsed_ms() + self._patience.total_ms, 0
        while True:
            self._ends.wait(wait_ms / 1_000)
            if self.has_ended:
                raise _closed()
            try:
                self._take_over(number)
            except NotAuthorized as error:
                said = f"the user is not let in again: {error}"
                raise mq_error(rc.MQRC_RECONNECT_FAILED, said) from error
            except MQError as error:
                is_passing = isinstance(error, ConnectionBroken) and error.reason not in _FINAL
                if not is_passing and error.reason not in HELD_BY_THE_LOST:
                    raise
                last = error
            else:
                return
            wait_ms = min(wait_ms * 2 or self._patience.first_ms, self._patience.longest_ms)
            if elapsed_ms() + wait_ms > until_ms:
                said = f"not connected again within {self._patience.total_ms} ms: {last}"
                raise mq_error(rc.MQRC_RECONNECT_TIMED_OUT, said) from last

    def _tell(self, change: MQError) -> None:
        if self._on_change is not None:
            self._on_change(change)

    def _take_over(self, number: int) -> None:
        made = self._connect()
        try:
            if self.is_to_same and _identifier_of(made) != self._identifier:
                said = f"{made.name} is another queue manager than the one before"
                raise mq_error(rc.MQRC_RECONNECT_QMID_MISMATCH, said)
            numbers = Numbers()
            self.objects.open_again(made, numbers)
            while not self._install(made, number + 1, numbers):
                # Another thread has opened something just before the connection was lost.
                self.objects.open_again(made, numbers)
        except BaseException:
            with suppress(MQError):
                made.close(commit=False)
            raise

    def _install(self, made: Connection, number: int, numbers: Numbers) -> bool:
        with self._state:
            if not self.objects.install(numbers):
                return False
            self.now = made, number
            if self.has_work:
                self.has_work, self.is_backed_out = False, True
            return True


def incompatible(option: str) -> MQError:
    """Return the error of an option whose effect ends with a connection."""
    said = f"{option}: the order of a group is lost with a connection"
    return mq_error(rc.MQRC_RECONNECT_INCOMPATIBLE, said)


def _closed() -> MQError:
    return mq_error(rc.MQRC_HCONN_ERROR, "the connection was closed")


def interrupted() -> LostAnswer:
    """Return the error of a call of which nobody knows whether it took effect."""
    said = "the connection broke before the answer came; find out by the MsgId, for instance"
    return LostAnswer(rc.MQRC_CALL_INTERRUPTED, said)


def backed_out() -> MQError:
    """Return the error for a unit of work that was lost with its connection."""
    said = "the connection was lost and made again; begin the unit of work anew"
    return mq_error(rc.MQRC_BACKED_OUT, said)


def _identifier_of(connection: Connection) -> str:
    """Return which queue manager it is: its QMID, for users who may not ask for that its name."""
    try:
        (value,) = connection.call(ask.Inquire(c.MQHO_NONE, [MQCA_Q_MGR_IDENTIFIER])).values
    except NotAuthorized:
        return connection.name
    return str(value)
