"""The part of a queue manager in a publish/subscribe hierarchy, driven by its clock.

``ALTER QMGR PSMODE(ENABLED)`` makes it take part, ``PARENT(name)`` makes it a child of another one.
Neighbours announce the topics that are subscribed to on their side; a publication goes to each
neighbour that has announced its topic.
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
#: The queue of persistent publications that can be neither published nor dead-lettered.
RETRY_QUEUE: Final = "SYSTEM.INTER.QMGR.PUBS.RETRY"
#: The number of publications, or of failed retries, in one turn.
TURN_COUNT: Final = 100
#: The wait before failed work is repeated, such as a put without a channel or on a full queue.
_RETRY_MS = 60 * SECOND_MS


class Hierarchy:
    """Sends and receives announcements, and forwards publications, for one queue manager."""

    def __init__(self, manager: Engine) -> None:
        """Watch the definitions: the queue manager takes part while PSMODE(ENABLED) is set."""
        self._manager = manager
        self._neighbours = Neighbours(manager)
        self._session: Session | None = None
        self._publications: Publications | None = None
        self._requests: Handle | None = None
        self._arrivals = Arrivals(manager)
        self._announcer = Announcer(manager)
        self._wanted = WantedTopics(self._neighbours)
        #: Neighbours asked for their topics since the opening; those with a missing announcement.
        self._asked: set[str] = set()
        self._incomplete: set[str] = set()
        #: Former neighbours to which the end was not announced yet.
        self._left: set[str] = set()
        #: Until the next retry: neighbours that cannot be reached; those that lack proxies.
        self._unreached: set[str] = set()
        self._unserved: set[str] = set()
        self._working = manager.runtime.lock("hierarchy")
        self._attaching = manager.runtime.lock("hierarchy and clock")
        self._is_closed = False
        self._is_attached = False
        self._parent = ""
        #: When failed work is repeated, None without any. No turn runs before ``_held_ms``.
        self._retry_ms: int | None = None
        self._held_ms = 0
        manager.on_wake.append(self._wake)
        manager.wake()

    def close(self) -> None:
        """Stop taking part, because the queue manager closes; uncommitted work is backed out."""
        with self._attaching:
            self._is_closed = True
        if self._is_attached:
            self._manager.clock.detach(self)
        with self._working:
            self._disconnect()

    def next_due_ms(self) -> int | None:
        """Return when the hierarchy has work to do next, in the clock's ms; None without work."""
        due_ms = self._manager.now_ms() if self._has_changes() else self._retry_ms
        return None if due_ms is None else max(due_ms, self._held_ms) - self._manager.ahead_ms

    def run_due(self) -> None:
        """Do the work of the hierarchy as long as some is due.

        Does nothing while another thread is in this call.
        """
        while self._is_due() and self._working.acquire(blocking=False):
            try:
                self._turn()
            finally:
                self._working.release()

    @property
    def _is_wanted(self) -> bool:
        """True while PSMODE(ENABLED) is set and the queue manager runs."""
        manager = self._manager
        return manager_definition(manager).psmode == c.MQPSM_ENABLED and not (
            self._is_closed or manager.is_stopped
        )

    @property
    def _is_retrying(self) -> bool:
        """True when the time has come to repeat failed work."""
        return self._retry_ms is not None and self._retry_ms <= self._manager.now_ms()

    def _has_changes(self) -> bool:
        """Return True if definitions, subscriptions or arriving messages make work."""
        if self._is_wanted != (self._session is not None):
            return True
        return self._session is not None and (
            self._arrivals.has_work
            or self._neighbours.parent != self._parent
            or self._announcer.has_changes
        )

    def _is_due(self) -> bool:
        """Return True if there is work to do now."""
        is_held = self._manager.now_ms() < self._held_ms
        return not is_held and (self._is_retrying or self._has_changes())

    def _turn(self) -> None:
        """Do one round of the due work; if another thread changes definitions, do it 1 ms later.

        An error is logged, and the work is repeated after a minute.
        """
        with definitions_if_free(self._manager) as is_free:
            if not is_free:
                self._held_ms = self._manager.now_ms() + 1
                return
            try:
                if self._is_wanted:
                    self._work()
                else:
                    self._disconnect()
            except Exception as error:  # noqa: BLE001 - the unit of work must be backed out
                self._stop_short(error)

    def _work(self) -> None:
        """Process announcements and publications, and repeat failed work that is due.

        Opens the queues at the first call. Raises MQError.
        """
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
        if self._publications.has_retries:
            self._retry_later()

    def _stop_short(self, error: Exception) -> None:
        """Back out and log an error; all work begins again after a minute."""
        mistake = None if isinstance(error, MQError) else error
        text = "hierarchy of %s stopped short: %s"
        _LOG.warning(text, self._manager.name, error, exc_info=mistake)
        if self._session is not None:
            # A stopped queue manager has backed out already.
            with suppress(MQError):
                self._session.backout()
        self._retry_later()
        self._held_ms = self._manager.now_ms() + _RETRY_MS

    def _fail(self, neighbour: str, what: str, error: MQError) -> None:
        """Log a failure with one neighbour, and retry later; work for the others continues.

        ``what`` says in the log what has failed.
        """
        _LOG.warning("hierarchy of %s: %s %s: %s", self._manager.name, what, neighbour, error)
        self._retry_later()

    def _retry_later(self) -> None:
        """Schedule a retry in a minute unless one is scheduled."""
        if self._retry_ms is None:
            self._retry_ms = self._manager.now_ms() + _RETRY_MS

    def _follow_parent(self) -> None:
        """If the attribute PARENT has changed, leave the old parent."""
        before, self._parent = self._parent, self._neighbours.parent
        if before != self._parent:
            if before:
                self._leave(before)
            self._leave_strangers()

    def _leave_strangers(self) -> None:
        """Remove the proxies of queue managers that are no neighbours any more.

        A later turn announces to them that this queue manager has left.
        """
        for stranger in self._neighbours.unknown_neighbours():
            self._neighbours.drop(stranger)
            self._leave(stranger)

    def _leave(self, name: str) -> None:
        """Forget a former neighbour; a later turn tells it that this queue manager has left."""
        self._forget(name)
        self._left.add(name)

    def _forget(self, name: str) -> None:
        """Forget the announced and the wanted topics of a neighbour; an unknown one is ignored."""
        self._announcer.forget(name)
        self._wanted.forget(name)
        self._asked.discard(name)
        self._incomplete.discard(name)

    def _connect(self) -> None:
        """Open the queues of the hierarchy, and define missing ones; raises MQError."""
        manager = self._manager
        self._neighbours.make_queues((PUBLICATIONS, RETRY_QUEUE, REQUESTS))
        session = manager.session(transacted=True, program=_PROGRAM)
        try:
            self._requests = session.open(REQUESTS, c.MQOO_INPUT_EXCLUSIVE)
            self._publications = Publications(manager, session)
        except MQError:
            session.close(commit=False)
            raise
        self._session = session
        self._announcer.begin()
        for handle in (self._requests, self._publications.arrived):
            self._arrivals.watch(handle.queue)
        self._arrivals.has_work = True
        # Publications put aside, and announcements that failed, may succeed now.
        self._retry_ms = manager.now_ms()
        self._leave_strangers()

    def _disconnect(self) -> None:
        """Close the queues of the hierarchy and back out; do nothing if they are not open."""
        self._arrivals.end()
        self._announcer.end()
        self._retry_ms, self._held_ms = None, 0
        session, self._session = self._session, None
        if session is not None:
            session.close(commit=False)

    def _read_announcements(self) -> None:
        """Process all announcements that have arrived, each in its unit of work.

        A refused one goes to the dead-letter queue. Then proxy subscriptions that are still to be
        changed are made or removed.
        """
        session, requests = self._session, self._requests
        assert session is not None
        assert requests is not None
        while (message := _next_message(requests)) is not None:
            try:
                self._receive(read_announcement(message.body))
            except MQError as error:
                self._refuse(session, message, error)
            except Exception as error:  # noqa: BLE001 - one announcement is not all the others
                _LOG.exception("announcement at %s: %s", self._manager.name, message)
                text = f"the announcement cannot be read: {error!r}"
                self._refuse(session, message, mq_error(rc.MQRC_UNEXPECTED_ERROR, text))
            session.commit()
        for neighbour in self._wanted.unfulfilled():
            if neighbour not in self._unserved:
                self._fulfil(neighbour)

    def _receive(self, announcement: Announcement) -> None:
        """Process an announcement: update the neighbour's wanted topics and proxies.

        Raises MQError for an announcement that this queue manager itself has sent. A queue manager
        that names this one as its parent becomes a child. If an earlier announcement is missing,
        all topics are asked for later.
        """
        sender = announcement.sender
        if sender == self._manager.name:
            raise mq_error(rc.MQRC_OBJECT_Q_MGR_NAME_ERROR, f"{sender!r} is no neighbour")
        if announcement.leaves:
            self._neighbours.drop(sender)
            self._forget(sender)
            return
        if sender not in self._neighbours.all():
            if announcement.parent != self._manager.name:
                # The sender did not know yet that this queue manager has left.
                self._leave(sender)
                return
            self._neighbours.add_child(sender)
        if announcement.asks:
            self._announcer.forget(sender)
        if self._wanted.receive(announcement):
            self._incomplete.discard(sender)
            self._fulfil(sender)
        else:
            # Soon after a start the complete announcement may follow this one.
            self._incomplete.add(sender)
            self._retry_later()

    def _ask_again(self) -> None:
        """Ask neighbours with a missing announcement for all their topics.

        The next announcement to each of them asks.
        """
        for neighbour in self._incomplete:
            text = "an announcement is missing: all topics are asked for"
            _LOG.warning("hierarchy of %s: %s: %s", self._manager.name, neighbour, text)
            self._asked.discard(neighbour)
            self._announcer.forget(neighbour)
        self._incomplete.clear()

    def _refuse(self, session: Session, message: Message, error: MQError) -> None:
        """Move a message that is no valid announcement to the dead-letter queue.

        If the dead-letter queue refuses it, the message is dropped and logged.
        """
        name = self._manager.name
        _LOG.warning("announcement at %s: %s refused: %s", name, message, error)
        try:
            put_dead_letter(self._manager, session, message, error.reason)
        except MQError as failure:
            _LOG.warning("announcement at %s: %s dropped: %s", name, message, failure)

    def _fulfil(self, neighbour: str) -> None:
        """Make or remove the proxy subscriptions of a neighbour; log a failure and retry later."""
        failure = self._wanted.fulfil(neighbour)
        if failure is not None:
            self._unserved.add(neighbour)
            self._fail(neighbour, "proxies of", failure)

    def _announce(self) -> None:
        """Send each neighbour its changes of topics; tell former neighbours that this one has left.

        An announcement that cannot be put is sent again later, as a complete one.
        """
        neighbours, announcer = self._neighbours.all(), self._announcer
        for stranger in self._left.difference(neighbours, self._unreached):
            if self._send(stranger, announcer.leave_announcement(self._parent)):
                self._left.discard(stranger)
        self._left.difference_update(neighbours)
        announcer.follow()
        for neighbour in neighbours:
            if neighbour in self._unreached:
                continue
            asks = neighbour not in self._asked
            announcement = announcer.announcement_for(neighbour, self._parent, asks=asks)
            if announcement is None:
                continue
            if self._send(neighbour, announcement):
                self._asked.add(neighbour)
            else:
                announcer.forget(neighbour)

    def _send(self, neighbour: str, announcement: Announcement) -> bool:
        """Send an announcement and commit; return False when it cannot be put.

        The failure is logged, and a retry follows in a minute.
        """
        assert self._session is not None
        name, body = f"{REQUESTS}@{neighbour}", announcement.packed()
        try:
            self._session.put(name, body, persistent=True, format_name="MQSTR")
            self._session.commit()
        except MQError as error:
            self._unreached.add(neighbour)
            self._fail(neighbour, "no announcement to", error)
            return False
        return True

    def _wake(self) -> None:
        """Let the clock run a turn if there is work; called at each wake of the queue manager.

        PSMODE(ENABLED) takes effect at once, on this thread.
        """
        if self._is_attached or self._is_wanted:
            if self._is_wanted and self._session is None:
                # Not left to the clock's thread: the queues are defined when the command
                # PSMODE(ENABLED) returns.
                self.run_due()
            with self._attaching:
                if not self._is_attached and not self._is_closed:
                    self._is_attached = True
                    self._manager.clock.attach(self)
            if self._has_changes():
                self._manager.clock.wake(self)


class Publications:
    """Publishes the publications of neighbours, here and to other neighbours.

    The session is transacted: each publication is got and published in one unit of work. One that
    cannot be published becomes a dead letter. Where that fails, too, a persistent one is put on a
    retry queue, so that those behind it need not wait; a non-persistent one is dropped.
    """

    def __init__(self, manager: Engine, session: Session) -> None:
        """Open the queues of publications and retries; raises the MQError of a failed open."""
        self._manager, self._session = manager, session
        #: The queue on which they arrive.
        self.arrived = session.open(PUBLICATIONS, c.MQOO_INPUT_EXCLUSIVE)
        self._retry_queue = session.open(RETRY_QUEUE, c.MQOO_INPUT_EXCLUSIVE)

    @property
    def has_retries(self) -> bool:
        """True if the retry queue has publications."""
        return self._retry_queue.queue.depth > 0

    def pass_on(self) -> bool:
        """Publish up to 100 arrived messages; return True if there may be more.

        Each is published and committed by itself. Raises MQError when a message can be neither
        published nor moved away.
        """
        for _ in range(TURN_COUNT):
            message = _next_message(self.arrived)
            if message is None:
                return False
            error = self._settle(message)
            if error is not None:
                _LOG.warning(
                    "publication at %s: %s refused: %s", self._manager.name, message, error
                )
        return True

    def try_again(self) -> None:
        """Publish the messages of the retry queue; those that fail again go to its end.

        Stops after 100 failures. Raises MQError when a message can be neither published nor moved
        away.
        """
        failed_count = 0
        for _ in range(self._retry_queue.queue.depth):
            message = _next_message(self._retry_queue) if failed_count < TURN_COUNT else None
            if message is None:
                return
            # A dead letter is to go back to where it came from.
            message.queue = PUBLICATIONS
            failed_count += self._settle(message) is not None

    def _settle(self, message: Message) -> MQError | None:
        """Publish a message, or move it to another queue or drop it; then commit.

        Returns None, or the error for which the message was not published.
        """
        failure: MQError | None = None
        try:
            publish_from_neighbour(self._session, message)
        except MQError as error:
            self._refuse(message, error)
            failure = error
        self._session.commit()
        return failure

    def _refuse(self, message: Message, error: MQError) -> None:
        """Put a message that cannot be published on the dead-letter queue.

        If that fails, a persistent one goes to the retry queue, unless this queue manager has
        published it before (a loop). Any other is dropped and logged.
        """
        manager, session = self._manager, self._session
        try:
            put_dead_letter(manager, session, message, error.reason)
        except MQError as failure:
            is_persistent = message.descriptor.persistence == c.MQPER_PERSISTENT
            if is_persistent and error.reason != rc.MQRC_LOOPING_PUBLICATION:
                forward(manager, session, RETRY_QUEUE, message)
            else:
                _LOG.warning("publication at %s: %s dropped: %s", manager.name, message, failure)


def _next_message(handle: Handle) -> Message | None:
    """Get the next message in the unit of work, None when the queue has none."""
    try:
        return handle.get(GetRequest(), c.MQGMO_SYNCPOINT).message
    except NoMessage:
        return None
