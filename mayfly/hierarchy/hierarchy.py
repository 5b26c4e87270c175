"""A queue manager's place in a tree of queue managers: driven by its clock, when there is work.

``ALTER QMGR PSMODE(ENABLED)`` lets it take part, ``PARENT(name)`` makes it the child of another
one. Neighbours announce what is subscribed to on their side; publications go where somebody has
announced their topic.
"""

from __future__ import annotations

import logging
import threading

from mayfly.engine.arrivals import Arrivals
from mayfly.engine.attributes.of_manager import PUBSUB_EVERYWHERE
from mayfly.engine.delivery import stored_id
from mayfly.engine.forwarding import bury
from mayfly.engine.get import GetRequest
from mayfly.engine.handles import Handle
from mayfly.engine.manager import Manager
from mayfly.engine.message import Message
from mayfly.engine.pubsub.proxies import PUBLICATIONS, out_of_envelope, publisher_name
from mayfly.engine.put import PutRequest
from mayfly.engine.session import Session
from mayfly.hierarchy.announcements import REQUESTS, Announcement, read_announcement
from mayfly.hierarchy.neighbours import Neighbours
from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, NoMessage, mq_error

_LOG = logging.getLogger("mayfly.hierarchy")
_PROGRAM = "publish/subscribe hierarchy"
#: How long it waits before it does again what has failed, for want of a channel or of room.
_RETRY_MS = 60 * SECOND_MS


class Hierarchy:
    """Announces, listens to announcements and passes publications on, for one queue manager."""

    def __init__(self, manager: Manager) -> None:
        """Take the place that the definitions say, now or when they are changed."""
        self._manager = manager
        self._neighbours = Neighbours(manager)
        self._session: Session | None = None
        self._queues: dict[str, Handle] = {}
        self._arrivals = Arrivals(manager)
        #: What each neighbour was told last, and what it wants and could not be given.
        self._told: dict[str, frozenset[str]] = {}
        self._wanted: dict[str, frozenset[str]] = {}
        #: Who was asked for its topics since this was opened.
        self._asked: set[str] = set()
        #: Who is still to be told that it is no neighbour.
        self._left: set[str] = set()
        self._working, self._attaching = threading.Lock(), threading.Lock()
        self._is_closed = False
        self._is_attached = False
        self._parent = ""
        self._seen_count = -1
        self._retry_ms: int | None = None
        self._wake_manager = manager.wake
        manager.wake = self._wake
        self._wake()

    def close(self) -> None:
        """End with the queue manager."""
        with self._attaching:
            self._is_closed = True
        if self._is_attached:
            self._manager.clock.detach(self)
        with self._working:
            self._disconnect()

    def next_due_ms(self) -> int | None:
        """Return the clock's time of its next turn, None when nothing is to be done."""
        due_ms = self._retry_ms
        if due_ms is None and self._has_news():
            due_ms = self._manager.now_ms()
        return None if due_ms is None else due_ms - self._manager.ahead_ms

    def run_due(self) -> None:
        """Do all that is due now."""
        while self._is_due() and self._working.acquire(blocking=False):
            try:
                self._turn()
            finally:
                self._working.release()

    @property
    def _is_wanted(self) -> bool:
        manager = self._manager
        return manager.registry.queue_manager.number("PSMODE") == PUBSUB_EVERYWHERE and not (
            self._is_closed or manager.is_stopped
        )

    def _has_news(self) -> bool:
        if self._is_wanted != (self._session is not None):
            return True
        return self._session is not None and (
            self._arrivals.has_work
            or self._neighbours.parent != self._parent
            or self._manager.registry.subscriptions.change_count != self._seen_count
        )

    def _is_due(self) -> bool:
        if self._retry_ms is not None:
            return self._retry_ms <= self._manager.now_ms()
        return self._has_news()

    def _turn(self) -> None:
        """Do what is due; the clock does not wait for who changes definitions elsewhere."""
        manager = self._manager
        if not manager.administration.acquire(blocking=False):
            self._retry_ms = manager.now_ms() + 1
            return
        self._retry_ms = None
        try:
            if self._is_wanted:
                self._work()
            else:
                self._disconnect()
        except MQError as error:
            self._fail("stopped short", error)
        finally:
            manager.administration.release()

    def _work(self) -> None:
        if self._session is None:
            self._connect()
        self._arrivals.has_work = False
        self._follow_parent()
        self._read_announcements()
        self._seen_count = self._manager.registry.subscriptions.change_count
        self._announce()
        self._pass_on()

    def _fail(self, what: str, error: MQError) -> None:
        """Note that something is to be tried again."""
        _LOG.warning("hierarchy of %s: %s: %s", self._manager.name, what, error)
        self._retry_ms = self._manager.now_ms() + _RETRY_MS

    def _follow_parent(self) -> None:
        """Leave the old parent when PARENT has changed."""
        before, self._parent = self._parent, self._neighbours.parent
        if before and before != self._parent:
            self._leave(before)
        for stranger in self._neighbours.strangers():
            self._neighbours.drop(stranger)
            self._leave(stranger)

    def _leave(self, name: str) -> None:
        self._told.pop(name, None)
        self._wanted.pop(name, None)
        self._asked.discard(name)
        self._left.add(name)

    def _connect(self) -> None:
        manager = self._manager
        self._neighbours.make_queues()
        self._session = manager.session(transacted=True, program=_PROGRAM)
        for name in (REQUESTS, PUBLICATIONS):
            handle = self._queues[name] = self._session.open(name, c.MQOO_INPUT_EXCLUSIVE)
            self._arrivals.watch(handle.queue)
        self._arrivals.has_work = True

    def _disconnect(self) -> None:
        self._arrivals.end()
        session, self._session = self._session, None
        if session is not None:
            session.close(commit=False)

    def _read_announcements(self) -> None:
        while (message := self._next(REQUESTS)) is not None:
            assert self._session is not None
            try:
                self._hear(read_announcement(message.body))
            except MQError as error:
                self._refuse(message, error)
            self._session.commit()
        for neighbour in list(self._wanted):
            self._give(neighbour)

    def _hear(self, announcement: Announcement) -> None:
        sender = announcement.sender
        if sender == self._manager.name:
            raise mq_error(rc.MQRC_OBJECT_Q_MGR_NAME_ERROR, f"{sender!r} is no neighbour")
        if announcement.leaves:
            self._neighbours.drop(sender)
            self._told.pop(sender, None)
            self._wanted.pop(sender, None)
            self._asked.discard(sender)
            return
        if sender not in self._neighbours.all():
            if announcement.parent != self._manager.name:
                # It was sent before it knew that this one has left.
                self._leave(sender)
                return
            self._neighbours.add_child(sender)
        if announcement.asks:
            self._told.pop(sender, None)
        self._wanted[sender] = announcement.topics
        self._give(sender)

    def _give(self, neighbour: str) -> None:
        failure = self._neighbours.give(neighbour, self._wanted[neighbour])
        if failure is None:
            del self._wanted[neighbour]
        else:
            self._fail(f"proxies of {neighbour}", failure)

    def _announce(self) -> None:
        for stranger in self._left.difference(self._neighbours.all()):
            if self._tell(stranger, self._news(frozenset(), leaves=True)):
                self._left.discard(stranger)
        for neighbour in self._neighbours.all():
            self._left.discard(neighbour)
            topics = self._neighbours.topics_for(neighbour)
            if topics == self._told.get(neighbour):
                continue
            asks = neighbour not in self._asked
            if self._tell(neighbour, self._news(topics, asks=asks)):
                self._told[neighbour] = topics
                self._asked.add(neighbour)

    def _news(
        self, topics: frozenset[str], *, asks: bool = False, leaves: bool = False
    ) -> Announcement:
        return Announcement(self._manager.name, self._parent, topics, asks, leaves)

    def _tell(self, neighbour: str, news: Announcement) -> bool:
        """Send an announcement; False when there is no way, and it is to be tried again."""
        assert self._session is not None
        name, body = f"{REQUESTS}@{neighbour}", news.packed()
        try:
            self._session.put(name, body, persistent=True, format_name="MQSTR")
            self._session.commit()
        except MQError as error:
            self._fail(f"no announcement to {neighbour}", error)
            return False
        return True

    def _pass_on(self) -> None:
        """Publish here what has come from neighbours, each in a unit of work of its own."""
        while (message := self._next(PUBLICATIONS)) is not None:
            session = self._session
            assert session is not None
            try:
                self._publish(session, message)
            except MQError as error:
                self._refuse(message, error)
            session.commit()

    def _publish(self, session: Session, message: Message) -> None:
        arrived = out_of_envelope(message.descriptor, message.body)
        session.belong_to(publisher_name(arrived.sender))
        request = PutRequest(
            arrived.descriptor._replace(put_date=message.put_date, put_time=message.put_time),
            message.msg_id,
            stored_id(message.correl_id),
            message.remaining_ms,
            context_option=c.MQPMO_SET_ALL_CONTEXT,
        )
        session.publish_as(arrived.topic, arrived.body, request, syncpoint=True)

    def _refuse(self, message: Message, error: MQError) -> None:
        """Dead-letter what cannot be used; where that fails it waits on its queue."""
        _LOG.warning("hierarchy of %s: %s refused: %s", self._manager.name, message, error)
        session = self._session
        assert session is not None
        try:
            bury(self._manager, session, message, error.reason)
        except MQError:
            session.backout()
            raise

    def _next(self, queue: str) -> Message | None:
        handle = self._queues.get(queue)
        if handle is None or self._session is None:
            return None
        try:
            return handle.get(GetRequest(), c.MQGMO_SYNCPOINT).message
        except NoMessage:
            return None

    def _wake(self) -> None:
        self._wake_manager()
        if self._is_attached or self._is_wanted:
            if self._is_wanted and self._session is None:
                # Before its clock competes: who has said PSMODE(ENABLED) may count on the queues.
                self.run_due()
            with self._attaching:
                if not self._is_attached and not self._is_closed:
                    self._is_attached = True
                    self._manager.clock.attach(self)
            if self._has_news():
                self._manager.clock.wake(self)
