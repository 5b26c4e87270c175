"""A queue manager's place in a tree of queue managers: driven by its clock, when there is work.

``ALTER QMGR PSMODE(ENABLED)`` lets it take part, ``PARENT(name)`` makes it the child of another
one. Neighbours announce what is subscribed to on their side; publications go where somebody has
announced their topic.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Final

from mayfly.channel.announcements import (
    REQUESTS,
    Announcement,
    Announcer,
    WantedTopics,
    read_announcement,
)
from mayfly.engine import (
    Arrivals,
    Engine,
    GetRequest,
    Handle,
    Session,
    forward,
    manager_definition,
    put_dead_letter,
)
from mayfly.engine.api.transit import (
    PUBLICATIONS,
    Neighbours,
    definitions_if_free,
    publish_from_neighbour,
)
from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, NoMessage, mq_error
from mayfly.verbs.messages import Message

_LOG = logging.getLogger("mayfly.hierarchy")
_PROGRAM = "publish/subscribe hierarchy"
#: Where persistent publications wait that can neither be published nor dead-lettered.
PUT_ASIDE: Final = "SYSTEM.INTER.QMGR.PUBS.RETRY"
#: Publications that are published, or tried again in vain, before others have a turn.
TURN_COUNT: Final = 100
#: How long it waits before it does again what has failed, for want of a channel or of room.
_RETRY_MS = 60 * SECOND_MS


class Hierarchy:
    """Announces, listens to announcements and passes publications on, for one queue manager."""

    def __init__(self, manager: Engine) -> None:
        """Take the place that the definitions say, now or when they are changed."""
        self._manager = manager
        self._neighbours = Neighbours(manager)
        self._session: Session | None = None
        self._publications: Publications | None = None
        self._requests: Handle | None = None
        self._arrivals = Arrivals(manager)
        self._telling = Announcer(manager)
        self._wanted = WantedTopics(self._neighbours)
        #: Neighbours that were asked for their topics since the opening, and those to ask again.
        self._asked: set[str] = set()
        self._misheard: set[str] = set()
        #: Former neighbours that have not been told yet.
        self._left: set[str] = set()
        #: Neighbours that cannot be reached, and those that lack proxies, until the next retry.
        self._unreached: set[str] = set()
        self._unserved: set[str] = set()
        self._working = manager.runtime.lock("hierarchy")
        self._attaching = manager.runtime.lock("hierarchy and clock")
        self._is_closed = False
        self._is_attached = False
        self._parent = ""
        #: When what has failed is tried again, None when nothing has; nothing is done before
        #: ``_held_ms``.
        self._retry_ms: int | None = None
        self._held_ms = 0
        manager.on_wake.append(self._wake)
        manager.wake()

    def close(self) -> None:
        with self._attaching:
            self._is_closed = True
        if self._is_attached:
            self._manager.clock.detach(self)
        with self._working:
            self._disconnect()

    def next_due_ms(self) -> int | None:
        """Return the clock's time of its next turn, None when nothing is to be done."""
        due_ms = self._manager.now_ms() if self._has_news() else self._retry_ms
        return None if due_ms is None else max(due_ms, self._held_ms) - self._manager.ahead_ms

    def run_due(self) -> None:
        while self._is_due() and self._working.acquire(blocking=False):
            try:
                self._turn()
            finally:
                self._working.release()

    @property
    def _is_wanted(self) -> bool:
        manager = self._manager
        return manager_definition(manager).psmode == c.MQPSM_ENABLED and not (
            self._is_closed or manager.is_stopped
        )

    @property
    def _is_retrying(self) -> bool:
        return self._retry_ms is not None and self._retry_ms <= self._manager.now_ms()

    def _has_news(self) -> bool:
        if self._is_wanted != (self._session is not None):
            return True
        return self._session is not None and (
            self._arrivals.has_work
            or self._neighbours.parent != self._parent
            or self._telling.has_news
        )

    def _is_due(self) -> bool:
        is_held = self._manager.now_ms() < self._held_ms
        return not is_held and (self._is_retrying or self._has_news())

    def _turn(self) -> None:
        """Do what is due; the clock does not wait for a change of definitions elsewhere."""
        with definitions_if_free(self._manager) as is_free:
            if not is_free:
                self._held_ms = self._manager.now_ms() + 1
                return
            try:
                if self._is_wanted:
                    self._work()
                else:
                    self._disconnect()
            except Exception as error:  # noqa: BLE001 - nothing is to stay half done
                self._stop_short(error)

    def _work(self) -> None:
        if self._session is None:
            self._connect()
        is_retrying = self._is_retrying
        if is_retrying:
            self._retry_ms = None
            self._unreached.clear()
            self._unserved.clear()
            self._ask_again()
        self._arrivals.has_work = False
        self._follow_parent()
        self._read_announcements()
        self._announce()
        assert self._publications is not None
        if is_retrying:
            self._publications.try_again()
        if self._publications.pass_on():
            self._arrivals.has_work = True
        if self._publications.has_some_aside:
            self._try_later()

    def _stop_short(self, error: Exception) -> None:
        """Undo what is half done: all of it is to be done again, later."""
        mistake = None if isinstance(error, MQError) else error
        said = "hierarchy of %s stopped short: %s"
        _LOG.warning(said, self._manager.name, error, exc_info=mistake)
        if self._session is not None:
            # A queue manager that has stopped has done it.
            with suppress(MQError):
                self._session.backout()
        self._try_later()
        self._held_ms = self._manager.now_ms() + _RETRY_MS

    def _fail(self, neighbour: str, what: str, error: MQError) -> None:
        """Note what is to be tried again; the others need not wait for it."""
        _LOG.warning("hierarchy of %s: %s %s: %s", self._manager.name, what, neighbour, error)
        self._try_later()

    def _try_later(self) -> None:
        if self._retry_ms is None:
            self._retry_ms = self._manager.now_ms() + _RETRY_MS

    def _follow_parent(self) -> None:
        """Leave the old parent when PARENT has changed."""
        before, self._parent = self._parent, self._neighbours.parent
        if before != self._parent:
            if before:
                self._leave(before)
            self._leave_strangers()

    def _leave_strangers(self) -> None:
        for stranger in self._neighbours.strangers():
            self._neighbours.drop(stranger)
            self._leave(stranger)

    def _leave(self, name: str) -> None:
        self._forget(name)
        self._left.add(name)

    def _forget(self, name: str) -> None:
        self._telling.forget(name)
        self._wanted.forget(name)
        self._asked.discard(name)
        self._misheard.discard(name)

    def _connect(self) -> None:
        manager = self._manager
        self._neighbours.make_queues((PUBLICATIONS, PUT_ASIDE, REQUESTS))
        session = manager.session(transacted=True, program=_PROGRAM)
        try:
            self._requests = session.open(REQUESTS, c.MQOO_INPUT_EXCLUSIVE)
            self._publications = Publications(manager, session)
        except MQError:
            session.close(commit=False)
            raise
        self._session = session
        self._telling.begin()
        for handle in (self._requests, self._publications.arrived):
            self._arrivals.watch(handle.queue)
        self._arrivals.has_work = True
        # Publications put aside, and announcements that failed, may succeed now.
        self._retry_ms = manager.now_ms()
        self._leave_strangers()

    def _disconnect(self) -> None:
        self._arrivals.end()
        self._telling.end()
        self._retry_ms, self._held_ms = None, 0
        session, self._session = self._session, None
        if session is not None:
            session.close(commit=False)

    def _read_announcements(self) -> None:
        session, requests = self._session, self._requests
        assert session is not None
        assert requests is not None
        while (message := _got(requests)) is not None:
            try:
                self._hear(read_announcement(message.body))
            except MQError as error:
                self._refuse(session, message, error)
            except Exception as error:  # noqa: BLE001 - one announcement is not all the others
                _LOG.exception("announcement at %s: %s", self._manager.name, message)
                said = f"the announcement cannot be read: {error!r}"
                self._refuse(session, message, mq_error(rc.MQRC_UNEXPECTED_ERROR, said))
            session.commit()
        for neighbour in self._wanted.unfulfilled():
            if neighbour not in self._unserved:
                self._fulfil(neighbour)

    def _hear(self, announcement: Announcement) -> None:
        sender = announcement.sender
        if sender == self._manager.name:
            raise mq_error(rc.MQRC_OBJECT_Q_MGR_NAME_ERROR, f"{sender!r} is no neighbour")
        if announcement.leaves:
            self._neighbours.drop(sender)
            self._forget(sender)
            return
        if sender not in self._neighbours.all():
            if announcement.parent != self._manager.name:
                # It was sent before it knew that this one has left.
                self._leave(sender)
                return
            self._neighbours.add_child(sender)
        if announcement.asks:
            self._telling.forget(sender)
        if self._wanted.hear(announcement):
            self._misheard.discard(sender)
            self._fulfil(sender)
        else:
            # Soon after a start what it was asked for may be on its way, behind this.
            self._misheard.add(sender)
            self._try_later()

    def _ask_again(self) -> None:
        """Ask those for all their topics of whose announcements one is missing."""
        for neighbour in self._misheard:
            said = "an announcement is missing: all topics are asked for"
            _LOG.warning("hierarchy of %s: %s: %s", self._manager.name, neighbour, said)
            self._asked.discard(neighbour)
            self._telling.forget(neighbour)
        self._misheard.clear()

    def _refuse(self, session: Session, message: Message, error: MQError) -> None:
        """Dead-letter a message that is no announcement; drop it where that fails."""
        name = self._manager.name
        _LOG.warning("announcement at %s: %s refused: %s", name, message, error)
        try:
            put_dead_letter(self._manager, session, message, error.reason)
        except MQError as failure:
            _LOG.warning("announcement at %s: %s dropped: %s", name, message, failure)

    def _fulfil(self, neighbour: str) -> None:
        failure = self._wanted.fulfil(neighbour)
        if failure is not None:
            self._unserved.add(neighbour)
            self._fail(neighbour, "proxies of", failure)

    def _announce(self) -> None:
        neighbours, telling = self._neighbours.all(), self._telling
        for stranger in self._left.difference(neighbours, self._unreached):
            if self._tell(stranger, telling.farewell(self._parent)):
                self._left.discard(stranger)
        self._left.difference_update(neighbours)
        telling.follow()
        for neighbour in neighbours:
            if neighbour in self._unreached:
                continue
            asks = neighbour not in self._asked
            news = telling.news_for(neighbour, self._parent, asks=asks)
            if news is None:
                continue
            if self._tell(neighbour, news):
                self._asked.add(neighbour)
            else:
                telling.forget(neighbour)

    def _tell(self, neighbour: str, news: Announcement) -> bool:
        """Send an announcement; False when there is no way, and it is to be tried again."""
        assert self._session is not None
        name, body = f"{REQUESTS}@{neighbour}", news.packed()
        try:
            self._session.put(name, body, persistent=True, format_name="MQSTR")
            self._session.commit()
        except MQError as error:
            self._unreached.add(neighbour)
            self._fail(neighbour, "no announcement to", error)
            return False
        return True

    def _wake(self) -> None:
        if self._is_attached or self._is_wanted:
            if self._is_wanted and self._session is None:
                # Run here, before the clock's thread can: the command PSMODE(ENABLED) returns with
                # the queues defined.
                self.run_due()
            with self._attaching:
                if not self._is_attached and not self._is_closed:
                    self._is_attached = True
                    self._manager.clock.attach(self)
            if self._has_news():
                self._manager.clock.wake(self)


class Publications:
    """The publications of neighbours: they are published here, and go on to other neighbours.

    The session is transacted, and each one is published in the unit of work that gets it. One that
    cannot be published is dead-lettered. Where that fails, too, a persistent one is put aside and
    tried again later, so that those behind it need not wait; any other is dropped.
    """

    def __init__(self, manager: Engine, session: Session) -> None:
        """Open the queues; raises as ``Session.open``."""
        self._manager, self._session = manager, session
        #: The queue on which they arrive.
        self.arrived = session.open(PUBLICATIONS, c.MQOO_INPUT_EXCLUSIVE)
        self._aside = session.open(PUT_ASIDE, c.MQOO_INPUT_EXCLUSIVE)

    @property
    def has_some_aside(self) -> bool:
        """Whether publications are put aside, to be tried again."""
        return self._aside.queue.depth > 0

    def pass_on(self) -> bool:
        """Publish messages that have come; return True if there may be more.

        Raises when a message can be neither published nor moved away.
        """
        for _ in range(TURN_COUNT):
            message = _got(self.arrived)
            if message is None:
                return False
            error = self._settle(message)
            if error is not None:
                _LOG.warning(
                    "publication at %s: %s refused: %s", self._manager.name, message, error
                )
        return True

    def try_again(self) -> None:
        """Publish messages that were put aside; one that still fails goes behind the others."""
        failed_count = 0
        for _ in range(self._aside.queue.depth):
            message = _got(self._aside) if failed_count < TURN_COUNT else None
            if message is None:
                return
            # A dead letter is to go back to where it came from.
            message.queue = PUBLICATIONS
            failed_count += self._settle(message) is not None

    def _settle(self, message: Message) -> MQError | None:
        """Publish a message or put it elsewhere; return why it was not published."""
        failure: MQError | None = None
        try:
            publish_from_neighbour(self._session, message)
        except MQError as error:
            self._refuse(message, error)
            failure = error
        self._session.commit()
        return failure

    def _refuse(self, message: Message, error: MQError) -> None:
        """Dead-letter what cannot be published, else put it aside if that is worth it."""
        manager, session = self._manager, self._session
        try:
            put_dead_letter(manager, session, message, error.reason)
        except MQError as failure:
            is_persistent = message.descriptor.persistence == c.MQPER_PERSISTENT
            if is_persistent and error.reason != rc.MQRC_LOOPING_PUBLICATION:
                forward(manager, session, PUT_ASIDE, message)
            else:
                _LOG.warning("publication at %s: %s dropped: %s", manager.name, message, failure)


def _got(handle: Handle) -> Message | None:
    """Get the next message in the unit of work, None when there is none."""
    try:
        return handle.get(GetRequest(), c.MQGMO_SYNCPOINT).message
    except NoMessage:
        return None
