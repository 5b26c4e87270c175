"""Connecting again: when, for how long, to which queue manager, and the loss of a unit of work.

Every part of a connection that reconnects runs its verbs by :meth:`Reconnection.run`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, TypeVar

from mayfly.client.connection.endpoint import Reconnect
from mayfly.client.connection.interface import Connection
from mayfly.client.connection.reopening import HELD_BY_THE_LOST, Numbers, OpenedObjects
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.constants import MQCA_Q_MGR_IDENTIFIER
from mayfly.mqi.errors import (
    ConnectionBroken,
    LostAnswer,
    MQError,
    NotAuthorized,
    mq_error,
)
from mayfly.runtime import Event, Runtime, elapsed_ms
from mayfly.verbs import requests as ask

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
