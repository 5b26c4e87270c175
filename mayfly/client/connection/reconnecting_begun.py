"""Verbs with a callback that outlive their connection: they are begun again on the next one."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Generic, TypeAlias, TypeVar

from mayfly.client.connection.interface import Connection, OnDone, UnderWay
from mayfly.client.connection.reconnection import DRAINED, Reconnection, interrupted
from mayfly.mqi.errors import LostAnswer, MQError

_T = TypeVar("_T")
#: Begins a verb on a connection.
Begin: TypeAlias = Callable[[Connection, OnDone[_T]], UnderWay]

_NOWHERE: Final = -1
_LOG = logging.getLogger("mayfly.client")


class Begun(Generic[_T]):
    """One verb with a callback: the function that begins it, and the one that tells its outcome."""

    def __init__(
        self,
        begin: Begin[_T],
        tell: Callable[[Connection, int, _T | MQError], object],
        *,
        is_wait: bool = False,
        is_final: bool = False,
    ) -> None:
        """Note how to begin and how to tell.

        ``tell`` is given the connection of the outcome, and the number of this connection. A verb
        with ``is_wait`` may be dropped with its connection: a message that it was about to take
        goes back. When the answer of a verb with ``is_final`` is lost, it may have taken effect, so
        it is not begun again.
        """
        self.begin, self.tell = begin, tell
        self.is_wait, self.is_final = is_wait, is_final
        #: Its place among all that were begun.
        self.place = 0
        self.is_over = False
        #: Where it is under way, and where it was: numbers of connections.
        self.at = self.was_at = _NOWHERE
        self.under_way: UnderWay | None = None

    def has_ended(self) -> bool:
        """Whether its outcome is told, or nobody wants it any more; another thread may say so."""
        return self.is_over


class BegunVerbs:
    """The verbs of one connection; any thread may use it. Callbacks come one at a time."""

    def __init__(self, again: Reconnection) -> None:
        """Begin with none."""
        self._again = again
        self._changed = again.runtime.condition()
        self._telling = again.runtime.reentrant_lock("reconnecting callbacks")
        self._last_place = 0
        #: How many verbs of each connection, by its number, have not called back.
        self._open_counts: Counter[int] = Counter()
        #: Verbs that are to be begun again, and waits on a connection that is being drained.
        self._lost: list[Begun[Any]] = []
        self._drained: list[Begun[Any]] = []
        self._is_beginning_again = self._has_thread = False

    def start(self, begun: Begun[Any]) -> UnderWay:
        """Begin a verb, behind those that are to be begun again: puts keep their order."""
        is_lost = self._again.is_lost(self._again.now[0])
        with self._changed:
            self._last_place += 1
            begun.place = self._last_place
            is_behind = is_lost or self._is_beginning_again
            if is_behind:
                self._lose(begun, self._lost)
        if not is_behind:
            self._begin(begun)
        return _Started(self, begun)

    def cancel(self, begun: Begun[Any]) -> bool:
        """End a verb without effect; see ``UnderWay.cancel``."""
        while begun.is_wait:
            connection, number = self._again.now
            with self._changed:
                while not begun.is_over and begun.at != _NOWHERE and begun.under_way is None:
                    self._changed.wait()
                if begun.is_over:
                    return False
                at, under_way = begun.at, begun.under_way
                if under_way is None:
                    begun.is_over = True
                    return True
            is_cancelled = under_way.cancel()
            is_lost = at != number or self._again.is_lost(connection)
            with self._changed:
                if is_cancelled:
                    begun.is_over = True
                    self._count_down(at)
                    return True
                if begun.has_ended() or (begun.at == at and not is_lost):
                    return False
                if begun.at == at:
                    # Its callback, if one comes, tells of what went back with the connection.
                    begun.is_over = True
                    return True
        return False

    def _begin(self, begun: Begun[Any]) -> None:
        connection, number = self._again.now
        with self._changed:
            if begun.is_over:
                return
            begun.at = number
            self._open_counts[number] += 1
        on_done = partial(self._done, begun, connection, number)
        try:
            under_way = begun.begin(connection, on_done)
        except MQError as error:
            on_done(error)
            return
        with self._changed:
            if begun.at == number:
                begun.under_way = under_way
            self._changed.notify_all()

    def _done(
        self, begun: Begun[Any], connection: Connection, number: int, outcome: object
    ) -> None:
        """Tell an outcome, or begin the verb again: the callback on one connection."""
        again_in = None
        if isinstance(outcome, MQError):
            again_in = self._list_for(begun, connection, outcome)
            if again_in is None and isinstance(outcome, LostAnswer):
                outcome = interrupted() if self._again.is_lost(connection) else outcome
        with self._changed:
            is_told = again_in is None and not begun.is_over
            if is_told:
                begun.is_over = True
            elif again_in is not None and not begun.is_over:
                self._lose(begun, again_in)
            self._count_down(number)
        if is_told:
            with self._telling:
                begun.tell(connection, number, outcome)

    def _list_for(
        self, begun: Begun[Any], connection: Connection, error: MQError
    ) -> list[Begun[Any]] | None:
        """Return where a verb that failed waits to be begun again, None when it is not."""
        if self._again.is_lost(connection):
            is_doubtful = begun.is_final and isinstance(error, LostAnswer)
            return None if is_doubtful else self._lost
        if begun.is_wait and error.reason in DRAINED and not self._again.has_ended:
            return self._drained
        return None

    def _lose(self, begun: Begun[Any], where: list[Begun[Any]]) -> None:
        """Leave a verb to the thread that begins again; ``_changed`` is held."""
        begun.was_at, begun.at, begun.under_way = begun.at, _NOWHERE, None
        where.append(begun)
        if not self._has_thread:
            self._has_thread = True
            self._again.runtime.thread(self._run, "mayfly-reconnect").start()
        self._changed.notify_all()

    def _count_down(self, number: int) -> None:
        self._open_counts[number] -= 1
        self._changed.notify_all()

    def _run(self) -> None:
        """Connect again and begin again, until nothing is lost."""
        while True:
            connection, number = self._again.now
            with self._changed:
                if not self._lost and not self._drained:
                    self._is_beginning_again = self._has_thread = False
                    return
                is_drained = not self._lost and all(each.was_at == number for each in self._drained)
                self._is_beginning_again = not is_drained
            if is_drained:
                self._again.wait_for_loss(connection)
            failure = self._connect_again(connection, number)
            with self._changed:
                while failure is None and self._has_open_before(self._again.now[1]):
                    self._changed.wait()
                self._is_beginning_again = True
                lost, self._lost, self._drained = self._lost + self._drained, [], []
            for begun in sorted(lost, key=lambda each: each.place):
                try:
                    if failure is None:
                        self._begin(begun)
                    else:
                        self._fail(begun, connection, number, failure)
                except Exception:  # noqa: BLE001 - the other verbs are begun again as well
                    _LOG.exception("a verb cannot be begun again")

    def _has_open_before(self, number: int) -> bool:
        """Return True if callbacks of earlier connections are still to come."""
        self._open_counts += Counter()  # without those that are 0
        return any(each < number for each in self._open_counts)

    def _connect_again(self, connection: Connection, number: int) -> MQError | None:
        """Return why there is no connection to begin on."""
        try:
            if self._again.has_ended or self._again.is_lost(connection):
                self._again.again(number)
        except MQError as error:
            return error
        return None

    def _fail(
        self, begun: Begun[Any], connection: Connection, number: int, failure: MQError
    ) -> None:
        with self._changed:
            is_told = not begun.is_over
            begun.is_over = True
        if is_told:
            with self._telling:
                begun.tell(connection, number, failure)


class _Started:
    """A verb that was begun, whatever connection it is on."""

    def __init__(self, verbs: BegunVerbs, begun: Begun[Any]) -> None:
        self._verbs, self._begun = verbs, begun

    def cancel(self) -> bool:
        """End it without effect; False when it is decided."""
        return self._verbs.cancel(self._begun)
