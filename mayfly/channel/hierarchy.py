"""The part of a queue manager in a publish/subscribe hierarchy, and its announcements of topics.

``ALTER QMGR PSMODE(ENABLED)`` makes it take part, ``PARENT(name)`` makes it a child of another one.
Neighbours announce the topics that are subscribed to on their side; a publication goes to each
neighbour that has announced its topic.

A complete announcement has all topics and replaces the ones before. A change has the topics added
and removed since the announcement whose number it gives; a neighbour that missed that one asks for
a complete announcement. Each is a JSON object in a message of format MQSTR on
SYSTEM.INTER.QMGR.FANREQ.
"""

from __future__ import annotations

import json
import logging
import weakref
from collections import Counter, defaultdict
from contextlib import suppress
from typing import Any, Final, NamedTuple

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
    SubscribedTopics,
    TopicChange,
    definitions_if_free,
    next_number,
    publish_from_neighbour,
)
from mayfly.lifetime.times import SECOND_MS
from mayfly.mqi import constants as c
from mayfly.mqi import reasons as rc
from mayfly.mqi.errors import MQError, NoMessage, mq_error
from mayfly.verbs.checks import check_name
from mayfly.verbs.messages import Message
from mayfly.verbs.topic_strings import check_topic_string

_LOG = logging.getLogger("mayfly.hierarchy")
_PROGRAM = "publish/subscribe hierarchy"
#: The queue of persistent publications that can be neither published nor dead-lettered.
RETRY_QUEUE: Final = "SYSTEM.INTER.QMGR.PUBS.RETRY"
#: The number of publications, or of failed retries, in one turn.
TURN_COUNT: Final = 100
#: The wait before failed work is repeated, such as a put without a channel or on a full queue.
_RETRY_MS = 60 * SECOND_MS
REQUESTS = "SYSTEM.INTER.QMGR.FANREQ"
#: The value of ``follows`` in a complete announcement.
COMPLETE = 0
_FIELDS = {
    "sender": str,
    "parent": str,
    "number": int,
    "follows": int,
    "topics": list,
    "ended": list,
    "asks": bool,
    "leaves": bool,
}


#: Weak on both sides: a hierarchy knows its queue manager, which would keep the key alive.
_OF_MANAGERS: weakref.WeakKeyDictionary[Engine, weakref.ref[Hierarchy]] = (
    weakref.WeakKeyDictionary()
)


def hierarchy_of(manager: Engine) -> Hierarchy:
    """Return the hierarchy of a queue manager; KeyError when none was made."""
    hierarchy = _OF_MANAGERS[manager]()
    assert hierarchy is not None
    return hierarchy


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
        _OF_MANAGERS[manager] = weakref.ref(self)
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

    def status(self) -> str:
        """Return how the queue manager takes part: a word of DISPLAY PUBSUB STATUS.

        ACTIVE; STARTING or STOPPING for a moment; COMPAT or INACTIVE by PSMODE.
        """
        if self._session is not None:
            return "ACTIVE" if self._is_wanted else "STOPPING"
        if self._is_wanted:
            return "STARTING"
        is_compatible = manager_definition(self._manager).psmode == c.MQPSM_COMPAT
        return "COMPAT" if is_compatible else "INACTIVE"

    def status_of(self, neighbour: str) -> str:
        """Return the status of a neighbour: a word of DISPLAY PUBSUB STATUS.

        STARTING until it has announced its topics, then ACTIVE. ERROR until the next retry when an
        announcement to it cannot be put, one of it is missing, or its proxy subscriptions cannot be
        made. INACTIVE while this queue manager does not take part.
        """
        if self._session is None:
            return "INACTIVE"
        failures = (self._unreached, self._unserved, self._incomplete)
        if any(neighbour in failed for failed in failures):
            return "ERROR"
        return "ACTIVE" if self._wanted.is_known(neighbour) else "STARTING"

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


class Announcement(NamedTuple):
    """A message to a neighbour: the sender's topics, or those added and those ``ended``.

    ``follows`` is the number of the announcement that a change is based on, 0 for a complete one.
    With ``asks`` the sender wants our topics; with ``leaves`` it stops being a neighbour.
    ``parent`` is the sender's parent, empty at the top. The announcements of a sender have
    different numbers.
    """

    sender: str
    parent: str
    number: int
    topics: frozenset[str] = frozenset()
    ended: frozenset[str] = frozenset()
    follows: int = COMPLETE
    asks: bool = False
    leaves: bool = False

    def packed(self) -> bytes:
        """Return the announcement as the JSON body of a message."""
        lists = {"topics": sorted(self.topics), "ended": sorted(self.ended)}
        return json.dumps({**self._asdict(), **lists}).encode()


def read_announcement(body: bytes) -> Announcement:
    """Return the announcement in the body of a message.

    Raises MQRC_FORMAT_ERROR for a body of another form, MQRC_OBJECT_NAME_ERROR for a wrong name of
    its sender, and MQRC_TOPIC_STRING_ERROR for a wrong topic.
    """
    try:
        given = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise _wrong(f"no JSON: {error}") from None
    if not isinstance(given, dict) or given.keys() != _FIELDS.keys():
        raise _wrong(f"its fields are not {', '.join(_FIELDS)}")
    for name, kind in _FIELDS.items():
        if type(given[name]) is not kind:
            raise _wrong(f"{name} {given[name]!r} is no {kind.__name__}")
    check_name(given["sender"])
    topics, ended = (frozenset(map(_checked_topic, given[name])) for name in ("topics", "ended"))
    return Announcement(**{**given, "topics": topics, "ended": ended})


def _checked_topic(topic: Any) -> str:
    """Return a topic of an announcement unchanged.

    Raises MQRC_FORMAT_ERROR if it is no string, MQRC_TOPIC_STRING_ERROR for a wrong topic string.
    """
    if not isinstance(topic, str):
        raise _wrong(f"topic {topic!r} is no text")
    check_topic_string(topic, wildcards=True)
    return topic


def _wrong(detail: str) -> Exception:
    """Return the MQRC_FORMAT_ERROR for an announcement, with a detail."""
    return mq_error(rc.MQRC_FORMAT_ERROR, f"announcement of a neighbour: {detail}")


class _AnnouncedTopics:
    """The topics last announced to a neighbour, and the topics ``changed`` since."""

    def __init__(self, number: int, topics: frozenset[str]) -> None:
        """Take the number and the topics of a complete announcement."""
        self.number = number
        self.topics = set(topics)
        self.changed: set[str] = set()


class Announcer:
    """Makes the announcements of a queue manager; only its hierarchy uses it.

    The subscriptions on each side are counted once, and each later change updates the counts: one
    more subscription costs the same beside ten or ten thousand others.
    """

    def __init__(self, manager: Engine) -> None:
        """Begin without counts; :meth:`begin` counts the subscriptions of ``manager``."""
        self._manager = manager
        self._topics = SubscribedTopics(manager)
        #: topic -> neighbour -> number of subscriptions; those of this queue manager under "".
        self._sides: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._announced: dict[str, _AnnouncedTopics] = {}

    @property
    def has_changes(self) -> bool:
        """True when subscriptions were made or removed since the last :meth:`follow`."""
        return self._topics.has_changes

    def begin(self) -> None:
        """Count the present subscriptions, and follow their changes from now on.

        The next announcement to each neighbour has all topics.
        """
        self._sides.clear()
        self._announced.clear()
        for change in self._topics.begin():
            self._count(change)

    def end(self) -> None:
        """Stop following the subscriptions of the queue manager."""
        self._topics.end()

    def follow(self) -> None:
        """Update the counts by the subscriptions made and removed since the last call."""
        for change in self._topics.changes():
            self._count(change)
            for announced in self._announced.values():
                announced.changed.add(change.topic)

    def forget(self, neighbour: str) -> None:
        """Let the next announcement to a neighbour have all topics, not only the changes."""
        self._announced.pop(neighbour, None)

    def announcement_for(self, neighbour: str, parent: str, *, asks: bool) -> Announcement | None:
        """Return the next announcement to a neighbour, None when no topic has changed for it.

        The topics are those with a subscription here or behind another neighbour. The first
        announcement has all of them, a later one only the changes. ``parent`` is the parent of this
        queue manager; with ``asks`` the announcement requests all topics of the neighbour. A caller
        that cannot send the announcement calls :meth:`forget`.
        """
        announced, sender = self._announced.get(neighbour), self._manager.name
        if announced is None:
            topics = frozenset(t for t in self._sides if self._is_wanted(t, neighbour))
            complete = Announcement(sender, parent, self._number(), topics, asks=asks)
            self._announced[neighbour] = _AnnouncedTopics(complete.number, topics)
            return complete
        wanted = {topic for topic in announced.changed if self._is_wanted(topic, neighbour)}
        new, ended = wanted - announced.topics, (announced.changed - wanted) & announced.topics
        announced.changed.clear()
        if not (new or ended):
            return None
        follows, announced.number = announced.number, self._number()
        announced.topics |= new
        announced.topics -= ended
        return Announcement(
            sender, parent, announced.number, frozenset(new), frozenset(ended), follows, asks
        )

    def leave_announcement(self, parent: str) -> Announcement:
        """Return the announcement by which this queue manager stops being a neighbour.

        ``parent`` is the parent of this queue manager.
        """
        return Announcement(self._manager.name, parent, self._number(), leaves=True)

    def _count(self, change: TopicChange) -> None:
        """Add one change of a subscription to the counts by topic and neighbour."""
        counts = self._sides[change.topic]
        counts[change.neighbour] += change.step
        if not counts[change.neighbour]:
            del counts[change.neighbour]
        if not counts:
            del self._sides[change.topic]

    def _is_wanted(self, topic: str, neighbour: str) -> bool:
        """Return True if a subscription to the topic exists here or behind another neighbour."""
        sides = self._sides.get(topic, ())
        return len(sides) > (neighbour in sides)

    def _number(self) -> int:
        """Return the number of a new announcement, which no other announcement here has."""
        number = next_number(self._manager)
        assert number != COMPLETE
        return number


class _WantedByNeighbour:
    """The topics that a neighbour wants, and those whose proxy is still to change (``open``)."""

    def __init__(self, number: int, topics: frozenset[str], before: set[str]) -> None:
        """Take the topics of a complete announcement; ``number`` is the number of the announcement.

        ``before`` are the topics for which the neighbour has a proxy subscription now.
        """
        self.number = number
        self.topics = set(topics)
        self.open = self.topics ^ before


class WantedTopics:
    """The topics that neighbours want, by their announcements, and their proxy subscriptions.

    A proxy subscription sends the publications of its topic to the neighbour.
    """

    def __init__(self, neighbours: Neighbours) -> None:
        """Begin without announcements; ``neighbours`` makes and removes proxy subscriptions.

        A proxy subscription is one here on behalf of a neighbour's subscribers.
        """
        self._neighbours = neighbours
        self._wanted: dict[str, _WantedByNeighbour] = {}

    def is_known(self, neighbour: str) -> bool:
        """Return True if the neighbour has announced its topics since the opening."""
        return neighbour in self._wanted

    def unfulfilled(self) -> list[str]:
        """Return the neighbours for which proxy subscriptions are still to be made or removed."""
        return [name for name, wanted in self._wanted.items() if wanted.open]

    def receive(self, announcement: Announcement) -> bool:
        """Note the topics that a neighbour wants, and return True; make no proxy subscription yet.

        :meth:`fulfil` makes them. Returns False, and notes nothing, if the announcement is a change
        and the one before it was never received.
        """
        sender, topics = announcement.sender, announcement.topics
        if announcement.follows == COMPLETE:
            before = self._neighbours.proxy_topics(sender)
            self._wanted[sender] = _WantedByNeighbour(announcement.number, topics, before)
            return True
        wanted = self._wanted.get(sender)
        if wanted is None or wanted.number not in (announcement.follows, announcement.number):
            return False
        wanted.number = announcement.number
        wanted.topics |= topics
        wanted.topics -= announcement.ended
        wanted.open |= topics | announcement.ended
        return True

    def fulfil(self, neighbour: str) -> MQError | None:
        """Make and remove the proxy subscriptions that a neighbour's announcements ask for.

        A failure does not stop the others, and a later call tries it again. Returns the error of
        the last failure, None without any.
        """
        wanted, failure = self._wanted[neighbour], None
        for topic in sorted(wanted.open):
            try:
                self._neighbours.set_proxy(neighbour, topic, is_wanted=topic in wanted.topics)
            except MQError as error:
                failure = error
            else:
                wanted.open.discard(topic)
        return failure

    def forget(self, neighbour: str) -> None:
        """Forget the topics that a neighbour wants; its proxy subscriptions stay.

        An unknown neighbour is ignored.
        """
        self._wanted.pop(neighbour, None)
