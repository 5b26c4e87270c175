"""The reconnection of a client: attempts after a loss, and reopening of its objects.

See docs/CLIENTS.md.
"""

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
    """The handles and subscription numbers of a program, mapped to those of one connection.

    ``renamed`` maps former names of managed queues to their current names. ``reopened`` has the
    names of the objects that are open on the connection again.
    """

    handles: dict[int, int] = field(default_factory=dict)
    subscriptions: dict[int, int] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    reopened: set[str] = field(default_factory=set)

    def inner(self, handle: int) -> int:
        """Return the connection's handle for a handle of the program; 0 (MQHO_NONE) stays 0.

        Raises MQRC_HOBJ_ERROR for a handle that is not open.
        """
        if handle == c.MQHO_NONE:
            return handle
        known = self.handles.get(handle)
        if known is None:
            raise mq_error(rc.MQRC_HOBJ_ERROR, f"handle {handle} is not open on this connection")
        return known

    def inner_subscription(self, number: int) -> int:
        """Return the connection's number for a subscription number of the program.

        Raises MQRC_HOBJ_ERROR for a number that is not open.
        """
        known = self.subscriptions.get(number)
        if known is None:
            raise mq_error(rc.MQRC_HOBJ_ERROR, f"subscription {number} is not open here")
        return known


@dataclass
class OpenedObjects:
    """The open objects of a reconnecting connection, with functions that reopen them in order."""

    now: Numbers = field(default_factory=Numbers)
    #: By the name of the object for error messages.
    _reopeners: dict[str, Callable[[Connection, Numbers], None]] = field(default_factory=dict)
    #: The handle of the queue of each subscription.
    _queues: dict[int, int] = field(default_factory=dict)
    _handles: count[int] = field(default_factory=lambda: count(1))
    _numbers: count[int] = field(default_factory=lambda: count(1))

    def register(self, opened: Opened, reopen: Reopen) -> Opened:
        """Give an opened object a handle that survives reconnects; return it with that handle.

        ``reopen`` opens the object again on each new connection.
        """
        handle = next(self._handles)

        def renew(connection: Connection, made: Numbers) -> None:
            made.handles[handle] = reopen(connection, made).handle

        self.now.handles[handle] = opened.handle
        self._reopeners[_object(handle)] = renew
        return opened._replace(handle=handle)

    def register_subscription(
        self, made: Subscribed, resubscribe: Resubscribe, queue: int
    ) -> Subscribed:
        """Give a subscription and its queue handle numbers that survive reconnects.

        Returns the subscription with these numbers. ``resubscribe`` makes it again on each new
        connection. ``queue`` is the handle of the queue that the program chose for publications, 0
        for a managed queue.
        """
        number = next(
            (own for own, inner in self.now.subscriptions.items() if inner == made.number), 0
        )
        if number:
            # An altered subscription has a new handle, and is renewed with its current attributes.
            handle = self._queues[number]
        else:
            number, handle = next(self._numbers), self._outer_of(made.handle)
        if handle != c.MQHO_NONE:
            self.now.handles[handle] = made.handle
        self.now.subscriptions[number] = made.number
        self._queues[number] = handle
        old_queue = made.facts.queue

        def renew(connection: Connection, numbers: Numbers) -> None:
            anew = resubscribe(connection, numbers.inner(queue))
            numbers.subscriptions[number] = anew.number
            if handle != c.MQHO_NONE:
                numbers.handles[handle] = anew.handle
            if anew.facts.queue != old_queue:
                numbers.renamed[old_queue] = anew.facts.queue

        self._reopeners[_subscription(number)] = renew
        return made._replace(number=number, handle=handle)

    def remember(self, what: str, renew: Callable[[Connection], None]) -> None:
        """Call ``renew`` with each new connection; error texts name its object as ``what`` says.

        A later ``renew`` with the same ``what`` replaces this one.
        """
        self._reopeners[what] = lambda connection, _made: renew(connection)

    def drop(self, handle: int) -> None:
        """Forget a closed object: it is not reopened. An unknown handle is ignored."""
        self.now.handles.pop(handle, None)
        self._reopeners.pop(_object(handle), None)

    def drop_subscription(self, number: int) -> None:
        """Forget a closed subscription: it is not made again. An unknown number is ignored."""
        self.now.subscriptions.pop(number, None)
        self._queues.pop(number, None)
        self._reopeners.pop(_subscription(number), None)

    def open_again(self, connection: Connection, made: Numbers) -> None:
        """Reopen every object that ``made`` lacks on a new connection, and add it to ``made``.

        Raises MQRC_RECONNECT_FAILED for an object that cannot be reopened, or the error itself if
        the new connection broke. MQRC_OBJECT_IN_USE and MQRC_SUBSCRIPTION_IN_USE mean that the lost
        connection may still hold the object.
        """
        for what, renew in list(self._reopeners.items()):
            if what not in made.reopened:
                with _explained(what, connection):
                    renew(connection, made)
                made.reopened.add(what)

    def install(self, made: Numbers) -> bool:
        """Switch to the numbers of a new connection and return True.

        Returns False and changes nothing when an object is not in ``made``. The switch is one
        assignment: no verb sees numbers of two connections.
        """
        if not self._reopeners.keys() <= made.reopened:
            return False
        self.now = made
        return True

    def _outer_of(self, inner: int) -> int:
        """Return the program's handle for a handle of the connection, or a new one.

        0 (MQHO_NONE) stays 0.
        """
        if inner == c.MQHO_NONE:
            return inner
        known = (own for own, each in self.now.handles.items() if each == inner)
        return next(known, 0) or next(self._handles)


def _object(handle: int) -> str:
    """Return the name of an open object in error texts: ``handle 3``."""
    return f"handle {handle}"


def _subscription(number: int) -> str:
    """Return the name of a subscription in error texts: ``subscription 3``."""
    return f"subscription {number}"


@contextmanager
def _explained(what: str, connection: Connection) -> Iterator[None]:
    """Turn an MQError within the block into MQRC_RECONNECT_FAILED, whose text names ``what``.

    Errors of a broken connection, and of objects that are still in use, pass unchanged.
    """
    try:
        yield
    except MQError as error:
        if connection.is_broken or error.reason in HELD_BY_THE_LOST:
            raise
        text = f"{what} cannot be opened again: {error}"
        raise mq_error(rc.MQRC_RECONNECT_FAILED, text) from error


def reopen_dynamic(
    open_as: Callable[[Connection, str, str], Opened], model: str, made: str
) -> Reopen:
    """Return a function that reopens a dynamic queue, or creates it again if it no longer exists.

    ``open_as`` opens on a connection, with an object name and a DynamicQName. ``model`` is the
    model queue, ``made`` the name of the dynamic queue.
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
#: The time between checks of a draining connection.
_LOOK_SECONDS = 0.02


class ReconnectTiming(NamedTuple):
    """How long a client tries to reconnect; the defaults are those of IBM MQ.

    The first attempt comes at once. The pauses between the others double, from ``first_ms`` up to
    ``longest_ms``. The attempts end after ``total_ms``.
    """

    first_ms: int = 1_000
    longest_ms: int = 25_000
    total_ms: int = 1_800_000


DEFAULT_TIMING = ReconnectTiming()


class Attempts(NamedTuple):
    """How the owner of several connections watches and ends their attempts to reconnect.

    ``on_change`` is called on the reconnecting thread: with MQRC_RECONNECTING before the first
    attempt, then with MQRC_RECONNECTED or the final error. Setting the event ``ends`` ends all
    attempts: verbs that wait for a new connection then raise.
    """

    on_change: Callable[[MQError], object] | None = None
    ends: Event | None = None


DEFAULT_ATTEMPTS = Attempts()


class Lost(Exception):
    """A verb failed because its connection was lost, and a new connection exists now.

    ``is_in_doubt`` is True when the verb may have taken effect.
    """

    def __init__(self, error: ConnectionBroken) -> None:
        """Take the error with which the verb failed; a LostAnswer leaves its effect in doubt."""
        super().__init__(error)
        self.is_in_doubt = isinstance(error, LostAnswer)


class Reconnection:
    """The current connection of a reconnecting client, and the attempts to replace it.

    Any thread may use it.
    """

    def __init__(
        self,
        connect: Callable[[], Connection],
        how: Reconnect,
        patience: ReconnectTiming,
        attempts: Attempts,
    ) -> None:
        """Connect by calling ``connect``, also at each reconnect; raises its MQError.

        ``how`` says whether a reconnect must reach the same queue manager, ``patience`` how long to
        try, and ``attempts`` who is informed and can end the attempts.
        """
        self._connect, self._patience = connect, patience
        self._on_change = attempts.on_change
        self.is_to_same = how is Reconnect.QUEUE_MANAGER
        self.runtime = Runtime()
        self.objects = OpenedObjects()
        self._lock = self.runtime.reentrant_lock("reconnect")
        #: Held briefly, so that open objects and unit of work match the connection.
        self._state = self.runtime.lock("reconnected")
        #: Whether there are no attempts any more, and whether the program has closed it.
        self._ends = attempts.ends or self.runtime.event()
        self.is_closed = False
        #: The current connection and its number: one tuple, so that both change together.
        self.now: tuple[Connection, int] = connect(), 0
        self._identifier = _identifier_of(self.now[0]) if self.is_to_same else ""
        #: Why no other connection will be made.
        self.failure: MQError | None = None
        #: Whether the unit of work has work, and whether it was lost with its connection.
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
        """Run a verb and return its result; repeat it on a new connection if this one is lost.

        ``in_unit`` is True for a verb in the unit of work. ``enter`` registers the result and
        returns it, while the connection of the result is still the current one.

        Raises MQRC_BACKED_OUT while the program has neither committed nor backed out a lost unit of
        work. Raises LostAnswer with MQRC_CALL_INTERRUPTED when the verb may have taken effect.
        Raises MQRC_RECONNECT_FAILED, MQRC_RECONNECT_QMID_MISMATCH or MQRC_RECONNECT_TIMED_OUT when
        there is no new connection.
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
        """Run a verb once and return its result; the parameters are those of :meth:`run`.

        Raises Lost when its connection was lost and another one is made, else the errors of
        :meth:`run`.
        """
        if in_unit and self.is_backed_out:
            raise backed_out()
        connection, number = self.now
        if self.is_lost(connection):
            # Seen before the verb is sent: no answer of it can be lost.
            self.reconnect(number)
            raise Lost(ConnectionBroken(rc.MQRC_CONNECTION_BROKEN))
        try:
            result = verb(connection)
        except ConnectionBroken as error:
            if not self.is_lost(connection):
                raise
            try:
                self.reconnect(number)
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
        """Record that a verb on the connection with this number has put work into the unit of work.

        If that connection is no longer the current one, the work is lost and the next commit fails.
        """
        with self._state:
            if self.now[1] == number:
                self.has_work = True
            else:
                self.is_backed_out = True

    def wait(self, verb: Callable[[Connection], _T], *, in_unit: bool = False) -> _T:
        """Run a verb that may wait, repeat it on each new connection, and return its result.

        A draining server ends waits, and the verb is then repeated on the next connection. A
        program with an open unit of work gets the error instead, so that it can end the unit of
        work.
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
        """Record that the unit of work has work, before the verb that adds it is answered.

        ``unit`` is the number of the verb's unit of work. Raises MQRC_BACKED_OUT for a unit of work
        that was lost, even after the program has ended it. Raises MQRC_CONNECTION_BROKEN when
        the connection is no longer the current one.
        """
        with self._state:
            if self.is_backed_out or self._begun_unit != unit:
                raise backed_out()
            if self.now[0] is not connection:
                raise mq_error(rc.MQRC_CONNECTION_BROKEN, "there is another one since")
            self.has_work = True

    def next_unit(self) -> int:
        """Return the number of the unit of work that ends now, and begin the next one."""
        with self._state:
            self.unit += 1
            return self.unit - 1

    def end_unit(self, unit: int) -> tuple[Connection, bool]:
        """Return the connection that has a unit of work, and True if the unit of work has any work.

        The next unit of work begins on that connection. Raises MQRC_BACKED_OUT for one that was
        lost.
        """
        with self._state:
            is_lost, self.is_backed_out = self.is_backed_out or self._begun_unit > unit, False
            had_work, self.has_work = self.has_work, False
            self._begun_unit = max(self._begun_unit, unit + 1)
            if is_lost:
                raise backed_out()
            return self.now[0], had_work

    def is_lost(self, connection: Connection) -> bool:
        """Return True if the connection is broken and attempts to reconnect have not ended."""
        return connection.is_broken and not self.has_ended

    def reconnect(self, number: int) -> None:
        """Reconnect, unless another thread has already replaced the connection with this number.

        Blocks until there is a new connection or the attempts have failed. Raises MQRC_HCONN_ERROR
        after a close, MQRC_RECONNECT_FAILED, MQRC_RECONNECT_QMID_MISMATCH or
        MQRC_RECONNECT_TIMED_OUT. Later calls then raise the same error at once.
        """
        with self._lock:
            if self.failure is not None:
                raise self.failure
            if self.has_ended:
                raise _closed()
            if self.now[1] != number:
                return
            _LOG.info("the connection is lost; connecting again (MQRC_RECONNECTING)")
            self._report(mq_error(rc.MQRC_RECONNECTING, f"to {self.now[0].name}"))
            try:
                self._try_to_reconnect(number)
            except MQError as error:
                self.failure = error
                if not self.has_ended:
                    self._report(error)
                raise
            _LOG.info("connected again to %s (MQRC_RECONNECTED)", self.now[0].name)
            self._report(mq_error(rc.MQRC_RECONNECTED, f"to {self.now[0].name}"))

    def wait_for_loss(self, connection: Connection) -> None:
        """Wait until the server has ended a draining connection, or the attempts have ended."""
        while not (self.is_lost(connection) or self.has_ended):
            self._ends.wait(_LOOK_SECONDS)

    def end_attempts(self) -> None:
        """End all attempts to reconnect, now and later."""
        self._ends.set()

    def close(self) -> Connection:
        """End all attempts to reconnect and return the current connection, which stays open."""
        self.is_closed = True
        self.end_attempts()
        return self.now[0]

    @property
    def has_ended(self) -> bool:
        """True when no more attempts to reconnect are made."""
        return self._ends.is_set()

    def _try_to_reconnect(self, number: int) -> None:
        """Make attempts to reconnect until one succeeds or the time is over.

        ``number`` is that of the lost connection. The waits between the attempts grow. Raises
        MQRC_RECONNECT_FAILED, MQRC_RECONNECT_QMID_MISMATCH, MQRC_RECONNECT_TIMED_OUT, or
        MQRC_HCONN_ERROR after a close.
        """
        until_ms, wait_ms = elapsed_ms() + self._patience.total_ms, 0
        while True:
            self._ends.wait(wait_ms / 1_000)
            if self.has_ended:
                raise _closed()
            try:
                self._take_over(number)
            except NotAuthorized as error:
                text = f"the user is not let in again: {error}"
                raise mq_error(rc.MQRC_RECONNECT_FAILED, text) from error
            except MQError as error:
                is_passing = isinstance(error, ConnectionBroken) and error.reason not in _FINAL
                if not is_passing and error.reason not in HELD_BY_THE_LOST:
                    raise
                last = error
            else:
                return
            wait_ms = min(wait_ms * 2 or self._patience.first_ms, self._patience.longest_ms)
            if elapsed_ms() + wait_ms > until_ms:
                text = f"not connected again within {self._patience.total_ms} ms: {last}"
                raise mq_error(rc.MQRC_RECONNECT_TIMED_OUT, text) from last

    def _report(self, change: MQError) -> None:
        """Call ``Attempts.on_change``, unless that is None, with a change of the connection."""
        if self._on_change is not None:
            self._on_change(change)

    def _take_over(self, number: int) -> None:
        """Connect, reopen all objects, and make the new connection the current one.

        ``number`` is that of the lost connection; the new one gets the next number. After an error
        the new connection is closed and the old one stays current. Raises
        MQRC_RECONNECT_QMID_MISMATCH for another queue manager, and the errors of
        :meth:`OpenedObjects.open_again`.
        """
        made = self._connect()
        try:
            if self.is_to_same and _identifier_of(made) != self._identifier:
                text = f"{made.name} is another queue manager than the one before"
                raise mq_error(rc.MQRC_RECONNECT_QMID_MISMATCH, text)
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
        """Make a connection current if all objects are open on it; return False if one is missing.

        ``made`` is the new connection, ``number`` its number, and ``numbers`` has the handles and
        subscriptions opened on it. Work in the unit of work of the former connection is then lost:
        ``is_backed_out`` is set.
        """
        with self._state:
            if not self.objects.install(numbers):
                return False
            self.now = made, number
            if self.has_work:
                self.has_work, self.is_backed_out = False, True
            return True


def incompatible(option: str) -> MQError:
    """Return the MQRC_RECONNECT_INCOMPATIBLE error of an option that a reconnect would break."""
    text = f"{option}: the order of a group is lost with a connection"
    return mq_error(rc.MQRC_RECONNECT_INCOMPATIBLE, text)


def _closed() -> MQError:
    """Return the MQRC_HCONN_ERROR for a connection that the program has closed."""
    return mq_error(rc.MQRC_HCONN_ERROR, "the connection was closed")


def interrupted() -> LostAnswer:
    """Return the MQRC_CALL_INTERRUPTED error of a call that may or may not have taken effect."""
    text = "the connection broke before the answer came; find out by the MsgId, for instance"
    return LostAnswer(rc.MQRC_CALL_INTERRUPTED, text)


def backed_out() -> MQError:
    """Return the MQRC_BACKED_OUT error for a unit of work that was lost with its connection."""
    text = "the connection was lost and made again; begin the unit of work anew"
    return mq_error(rc.MQRC_BACKED_OUT, text)


def _identifier_of(connection: Connection) -> str:
    """Return the QMID of the queue manager, or its name for a user who may not inquire it."""
    try:
        (value,) = connection.call(ask.Inquire(c.MQHO_NONE, [MQCA_Q_MGR_IDENTIFIER])).values
    except NotAuthorized:
        return connection.name
    return str(value)
