"""The network machine's own knowledge of each message: its end, and the places it was met at.

It works deadlines out anew, from what was put and by which clock, and asks no Everyplace code.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum, auto
from pathlib import Path
from typing import NamedTuple

from mayfly.everyplace import (
    DEAD_LETTER_QUEUE_NAME,
    MSG_EXPIRE_TIME,
    MSG_RESEND,
    EveryplaceError,
    EveryplaceQueueManager,
    MessageFields,
    MessageUid,
    QueueEntry,
    QueueRule,
    RuleRefused,
)
from mayfly.lifetime.everyplace import Timepiece
from mayfly.mqi.reasons import MQRC_Q_FULL
from tests.everyplace.scene import reopened


def is_no(error: EveryplaceError) -> bool:
    """Return True if a rule, or a full queue, has refused a message."""
    return isinstance(error, RuleRefused) or error.reason == MQRC_Q_FULL


class Crash(BaseException):
    """The process ends here, as by kill -9: nobody catches it."""


class Watch:
    """The clock of a machine, which may crash it at one of the next times that it is read."""

    def __init__(self, clock: Timepiece) -> None:
        self.readings_left: int | None = None
        self._clock = clock

    def now_ms(self) -> int:
        if self.readings_left is not None:
            if not self.readings_left:
                raise Crash
            self.readings_left -= 1
        return self._clock.now_ms()


class Site:
    """A queue manager and, where it has one, the folder that it comes back from."""

    def __init__(self, name: str, clock: Timepiece, home: Path | None) -> None:
        self.name = name
        self.watch = Watch(clock)
        self._folder = home and home / name
        self.manager = EveryplaceQueueManager(name, self.watch, self._folder)

    def restart(self) -> None:
        """Close it at rest: nothing is forgotten."""
        assert self._folder is not None
        self.manager = reopened(self.manager, self._folder)

    def rise(self) -> None:
        """Open it after a crash in the middle of a verb."""
        self.manager.close()
        self.manager = EveryplaceQueueManager(self.name, self.watch, self._folder)

    def held(self, queue: str) -> set[MessageUid]:
        """Return what a queue holds in whatever state, looked at without a verb."""
        return {
            held.message.uid
            for each in self.manager.definitions.message_queues()
            if each.name == queue
            for held in each.in_order()
        }


class Place(NamedTuple):
    """A queue at a queue manager."""

    site: Site
    queue: str

    @property
    def manager(self) -> EveryplaceQueueManager:
        """The queue manager that is there now."""
        return self.site.manager

    def now_ms(self) -> int:
        """Return what its clock says."""
        return self.manager.clock.now_ms()

    def shown(self) -> set[MessageUid]:
        """Return what a browse shows: no moment at which anything is checked (M11)."""
        return {message.uid for message in self.manager.browse_messages(self.queue)}


class Life(NamedTuple):
    """One message: its place, its own end, and its put time by each queue manager's clock."""

    place: Place
    end_ms: int | None
    put_ms: dict[str, int]
    #: Whether it is known to have arrived at its put; on a bad network it may be later, or never.
    is_there: bool


class Mood(Enum):
    """The behaviour of a rule when it is asked."""

    CALM = auto()
    #: Refuses puts, gets and transmissions.
    REFUSING = auto()
    #: Fails in every hook (M17).
    BROKEN = auto()
    #: Puts a copy of what expired on the dead-letter queue (M16).
    COPYING = auto()


class Watcher(QueueRule):
    """Notes what expired at a place, and what of it was not over there by the model's reckoning."""

    def __init__(self, model: NetworkModel, place: Place, interval_ms: int | None) -> None:
        self.fired: Counter[MessageUid] = Counter()
        self.early: list[MessageUid] = []
        self.copied: set[MessageUid] = set()
        self.interval_ms = interval_ms
        self.mood = Mood.CALM
        self._model = model
        self._place = place

    def put_message(self, entry: QueueEntry, message: MessageFields) -> None:
        self._may_fail()
        if self.mood is Mood.REFUSING:
            raise RuleRefused("not now")

    get_message = put_message

    def transmit(self, entry: QueueEntry, message: MessageFields) -> bool:
        self.put_message(entry, message)
        return True

    def delete_message(self, entry: QueueEntry, message: MessageFields) -> None:
        self._may_fail()

    browse_message = undo = duplicate_message = threshold_exceeded = delete_message

    def queue_activate(self, queue: str) -> None:
        self._may_fail()

    queue_close = queue_removed = queue_activate

    def _may_fail(self) -> None:
        if self.mood is Mood.BROKEN:
            raise ZeroDivisionError

    def message_expired(self, entry: QueueEntry, message: MessageFields) -> None:
        # Noted, as an error in a rule is only logged (M17).
        if not self._model.may_be_over(message.uid, self._place, self):
            self.early.append(message.uid)
        self.fired[message.uid] += 1
        self._may_fail()
        if self.mood is Mood.COPYING:
            message.put_boolean(MSG_RESEND, True)
            message.delete(MSG_EXPIRE_TIME)
            self.copied.add(entry.owner.put_message(DEAD_LETTER_QUEUE_NAME, message))


class NetworkModel:
    """The lives of all messages, and a watcher at each place."""

    def __init__(self) -> None:
        self.lives: dict[MessageUid, Life] = {}
        self.got: Counter[MessageUid] = Counter()
        self.watchers: dict[Place, Watcher] = {}

    def watch(self, site: Site, queue: str, interval_ms: int | None) -> Watcher:
        """Return the rule of a place, whose queue has this interval."""
        place = Place(site, queue)
        watcher = self.watchers[place] = Watcher(self, place, interval_ms)
        return watcher

    def after_crash(self, fired: dict[Place, Counter[MessageUid]]) -> None:
        """Take back what rules were told in a verb that was never written.

        An expired message is gone and its copy there, or neither.
        """
        for place, watcher in self.watchers.items():
            there = place.site.held(place.queue)
            dead = place.site.held(DEAD_LETTER_QUEUE_NAME)
            for uid in watcher.fired - fired[place]:
                if uid in watcher.copied:
                    assert (uid in dead) is (uid not in there)
                if uid in there:
                    watcher.fired[uid] -= 1
                    watcher.copied.discard(uid)
            watcher.fired = +watcher.fired

    def may_be_over(self, uid: MessageUid, place: Place, watcher: Watcher) -> bool:
        """Return True if a message can be expired at a place now: it arrived at its put or later.

        Its own end overrides the interval (M3); both at their last millisecond.
        """
        life = self.lives.get(uid)
        if life is None:
            # Expired during the very put; the machine looks at that itself.
            return True
        if life.end_ms is not None:
            return life.end_ms <= place.now_ms()
        if watcher.interval_ms is None:
            return False
        return life.put_ms[place.manager.name] + watcher.interval_ms <= place.now_ms()

    def is_surely_over(self, uid: MessageUid, place: Place) -> bool:
        """Return True if a message must be expired at a place: put there, or by its own end."""
        life = self.lives[uid]
        known = life.end_ms is not None or (life.place == place and life.is_there)
        return known and self.may_be_over(uid, place, self.watchers[place])

    def overdue(self, place: Place) -> set[MessageUid]:
        """Return what a browse of a place shows though it is over."""
        return {uid for uid in place.shown() if self.is_surely_over(uid, place)}

    def overdue_locked(self, locked: set[MessageUid], place: Place) -> set[MessageUid]:
        """Return which locked messages are over and were not met; a browse shows none of them."""
        fired = self.watchers[place].fired
        return {uid for uid in locked if self.is_surely_over(uid, place) and uid not in fired}

    def copied_at(self, site: Site) -> set[MessageUid]:
        """Return what the rules of a queue manager have put on its dead-letter queue."""
        watchers = [watcher for place, watcher in self.watchers.items() if place.site is site]
        return set().union(*(watcher.copied for watcher in watchers))

    def fired_count(self, place: Place) -> int:
        """Return how many messages have expired at a place."""
        return self.watchers[place].fired.total()

    def has_fired(self, uid: MessageUid) -> bool:
        """Return True if a message expired anywhere."""
        return any(uid in watcher.fired for watcher in self.watchers.values())

    def note_got(self, message: MessageFields, place: Place) -> None:
        """Check that a message could be got: once, alive, where it was sent, unmet by the rule."""
        life = self.lives[message.uid]
        assert life.place.queue == place.queue
        assert not self.is_surely_over(message.uid, place)
        assert message.uid not in self.watchers[place].fired
        self.got[message.uid] += 1
        assert self.got[message.uid] == 1
