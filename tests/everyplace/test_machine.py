"""Two queue managers, two clocks that differ, and a network that drops, repeats and delays."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from mayfly.everyplace import (
    DEAD_LETTER_QUEUE_NAME,
    MSG_EXPIRE_TIME,
    EveryplaceError,
    EveryplaceQueueManager,
    Fault,
    LinkDown,
    MessageFields,
    MessageUid,
    RuleRefused,
    SkewedClock,
)
from mayfly.testing import VirtualClock
from tests.everyplace.network_model import (
    Crash,
    Life,
    Mood,
    NetworkModel,
    Place,
    Site,
    is_no,
)
from tests.everyplace.scene import START_MS, quick_folder
from tests.examples import examples

#: Pushed from A to B, fetched by A from B, and put by A on B's queue at once.
PUSHED, FETCHED, REMOTE = "PUSHED", "FETCHED", "REMOTE"
FAR_MS = 10**9
CONFIRM_ID, PUT_ID = 7, 8
#: So many at most, of which none is left at the end.
MAX_FAULTS = 20

intervals_ms = st.sampled_from((None, None, 50, 1_000))
skews_ms = st.sampled_from((0, 0, -100, 100, 1))
steps_ms = st.sampled_from((1, 1, 49, 50, 100, 1_000))
depths = st.sampled_from((None, None, 2))
#: Those that can be put on where they are: two queues for messages on their way, and one other.
own_places = st.sampled_from(("sent", "kept", "remote"))
places = st.sampled_from(("sent", "kept", "remote", "pushed", "fetched"))
End: TypeAlias = tuple[str, int] | None
ends = st.sampled_from(
    (None, None, ("int", 50), ("int", 150), ("int", 1_000), ("long", 50), ("long", 60))
)


class NetworkMachine(RuleBasedStateMachine):
    """Every message is got at most once, fires once at each place, and does not stay behind.

    It is met at each of the five moments when it is over, and at no other.
    """

    is_durable = False

    @initialize(
        skew_a=skews_ms,
        skew_b=skews_ms,
        sending=intervals_ms,
        arriving=intervals_ms,
        depth=depths,
    )
    def begin(
        self,
        skew_a: int,
        skew_b: int,
        sending: int | None,
        arriving: int | None,
        depth: int | None,
    ) -> None:
        self.clock = VirtualClock(START_MS)
        self.folders = ExitStack()
        home = self.folders.enter_context(quick_folder()) if self.is_durable else None
        at_a = self.at_a = Site("A", SkewedClock(self.clock, skew_a), home)
        at_b = self.at_b = Site("B", SkewedClock(self.clock, skew_b), home)
        self.link = self.a.connect(self.b)
        self.model = NetworkModel()
        watch = self.model.watch
        self.a.create_remote_queue(PUSHED, "B", True, watch(at_a, PUSHED, sending), sending)
        self.b.create_queue(PUSHED, arriving, watch(at_b, PUSHED, arriving), depth)
        self.a.create_queue(FETCHED, arriving, watch(at_a, FETCHED, arriving), depth)
        self.a.create_home_server_queue(FETCHED, "B")
        self.b.create_remote_queue(FETCHED, "A", True, watch(at_b, FETCHED, sending), sending)
        self.b.create_queue(REMOTE, arriving, watch(at_b, REMOTE, arriving), depth)
        self.sent, self.pushed = Place(at_a, PUSHED), Place(at_b, PUSHED)
        self.kept, self.fetched = Place(at_b, FETCHED), Place(at_a, FETCHED)
        self.remote = Place(at_b, REMOTE)
        self.unsure: set[MessageUid] = set()
        self.locked: set[MessageUid] = set()
        self.unconfirmed: dict[MessageUid, Place] = {}
        #: Gets whose answer was lost: what they took nobody will see.
        self.lost_gets = self.fault_count = 0

    @property
    def a(self) -> EveryplaceQueueManager:
        return self.at_a.manager

    @property
    def b(self) -> EveryplaceQueueManager:
        return self.at_b.manager

    @precondition(lambda self: self.is_durable)
    @rule(at=st.sampled_from(("at_a", "at_b")))
    def restart(self, at: str) -> None:
        """Nothing is forgotten, and no rule is called before its queue is touched (M8)."""
        fired = [self.model.fired_count(place) for place in self.model.watchers]
        getattr(self, at).restart()
        self.go_on()
        assert fired == [self.model.fired_count(place) for place in self.model.watchers]

    @precondition(lambda self: self.is_durable)
    @rule(
        at=st.sampled_from(("at_a", "at_b")),
        verb=st.sampled_from(("first_stage", "second_stage", "pull", "check_sizes")),
        reading_count=st.integers(0, 8),
        new=st.lists(ends, max_size=3),
    )
    def crash(self, at: str, verb: str, reading_count: int, new: list[End]) -> None:
        """Both end in the middle of a verb; it was done as far as it is written."""
        site: Site = getattr(self, at)
        for end in new:
            self.put(self.a, self.sent, end)
            self.put(self.b, self.kept, end)
        fired = {place: Counter(w.fired) for place, w in self.model.watchers.items()}
        site.watch.readings_left = reading_count
        try:
            getattr(self, verb)()
        except Crash:
            site.watch.readings_left = None
            self.at_a.rise()
            self.at_b.rise()
            self.go_on()
            self.model.after_crash(fired)
        site.watch.readings_left = None

    def go_on(self) -> None:
        """Give rules again, which are code, and connect; the link is what it was."""
        for place, watcher in self.model.watchers.items():
            place.manager.set_rule(place.queue, watcher)
        assert self.a.connect(self.b) in (self.link, self.b.connect(self.a))
        self.link = self.a.connect(self.b)

    def check_sizes(self) -> None:
        for place in self.model.watchers:
            place.manager.inquire_queue_size(place.queue)

    def put(
        self, manager: EveryplaceQueueManager, to: Place, end: End, confirm_id: int = 0
    ) -> None:
        """Put a message, and look whether it expires on arrival when it must (M6)."""
        message = MessageFields(clock=manager.clock)
        end_ms = None
        if end is not None and end[0] == "int":
            message.put_int(MSG_EXPIRE_TIME, end[1])
            end_ms = manager.clock.now_ms() + end[1]
        elif end is not None:
            end_ms = self.clock.now_ms() + end[1]
            message.put_long(MSG_EXPIRE_TIME, end_ms)
        remote_name = None if manager is to.manager else to.manager.name
        to.shown()
        before = self.model.fired_count(to)
        try:
            manager.put_message(to.queue, message, remote_name, confirm_id)
        except LinkDown:
            self.unsure.add(message.uid)
        except EveryplaceError as error:
            if not is_no(error):
                raise
            assert self.model.fired_count(to) == before
            assert message.uid not in to.shown()
            return
        put_ms = {each.name: each.clock.now_ms() for each in (self.a, self.b)}
        is_there = message.uid not in self.unsure
        self.model.lives[message.uid] = Life(to, end_ms, put_ms, is_there)
        if is_there:
            is_over = self.model.is_surely_over(message.uid, to)
            assert self.model.fired_count(to) - before == is_over
            assert (message.uid in to.shown()) is not (is_over or bool(confirm_id))
            if confirm_id:
                self.unconfirmed[message.uid] = to

    @rule(end=ends)
    def put_to_be_pushed(self, end: End) -> None:
        self.put(self.a, self.sent, end)

    @rule(end=ends)
    def put_to_be_fetched(self, end: End) -> None:
        self.put(self.b, self.kept, end)

    @rule(end=ends)
    def put_at_once(self, end: End) -> None:
        self.put(self.a, self.remote, end)

    @rule(to=own_places, end=ends)
    def put_unconfirmed(self, to: str, end: End) -> None:
        place: Place = getattr(self, to)
        self.put(place.manager, place, end, PUT_ID)

    @rule(confirms=st.booleans())
    def confirm_or_undo_puts(self, confirms: bool) -> None:
        """What was alive at its put is looked at again when it is confirmed (M6), not undone."""
        for uid, place in self.unconfirmed.items():
            place.shown()
            fired = self.model.watchers[place].fired
            if not confirms and uid not in fired:
                del self.model.lives[uid]
            elif uid in fired:
                with pytest.raises(EveryplaceError):
                    place.manager.confirm_put_message(place.queue, uid)
            else:
                place.manager.confirm_put_message(place.queue, uid)
                assert (uid in fired) is self.model.is_surely_over(uid, place)
                assert (uid in place.shown()) is not (uid in fired)
        for place in {*self.unconfirmed.values()}:
            place.manager.undo(place.queue, PUT_ID)
        self.unconfirmed.clear()

    @rule(at=places, last=st.booleans())
    def delete(self, at: str, last: bool) -> None:
        """Delete what is seen: once it is gone nobody gets it, and it was alive (M7)."""
        place: Place = getattr(self, at)
        shown = place.manager.browse_messages(place.queue)
        if not shown:
            return
        uid = shown[-last].uid
        is_over = self.model.is_surely_over(uid, place)
        try:
            place.manager.delete_message(place.queue, uid)
        except EveryplaceError:
            assert uid in self.model.watchers[place].fired
        else:
            assert not is_over
            self.model.got[uid] += 1
            assert self.model.got[uid] == 1

    @rule(at=places, mood=st.sampled_from((Mood.CALM, *Mood)))
    def rule_changes(self, at: str, mood: Mood) -> None:
        self.model.watchers[getattr(self, at)].mood = mood

    @rule(at=places, interval_ms=intervals_ms)
    def alter(self, at: str, interval_ms: int | None) -> None:
        """What is there meets it at its next check."""
        place: Place = getattr(self, at)
        place.shown()
        fired = self.model.fired_count(place)
        place.manager.alter_queue(place.queue, expiry_ms=interval_ms)
        self.model.watchers[place].interval_ms = interval_ms
        assert self.model.fired_count(place) == fired

    @rule(at=places, ms=steps_ms)
    def leave_and_come_back(self, at: str, ms: int) -> None:
        """A queue leaves memory; the call that brings it back looks at all (M8)."""
        place: Place = getattr(self, at)
        place.manager.deactivate_queue(place.queue)
        fired = self.model.fired_count(place)
        self.clock.advance(ms)
        assert self.model.fired_count(place) == fired
        place.shown()
        assert not self.model.overdue(place)

    @rule()
    def first_stage(self) -> None:
        self.a.transmit_put(PUSHED)

    @rule()
    def second_stage(self) -> None:
        shown = self.pushed.shown()
        self.a.transmit_confirm(PUSHED)
        self.check_arrivals(self.pushed, shown)

    @rule()
    def pull(self) -> None:
        shown = self.fetched.shown()
        try:
            self.a.pull(FETCHED)
        except EveryplaceError as error:
            if not is_no(error):
                raise
        self.check_arrivals(self.fetched, shown)

    def check_arrivals(self, place: Place, shown: set[MessageUid]) -> None:
        """What was let in just now is alive there (M6)."""
        assert not (place.shown() - shown) & self.model.overdue(place)

    @rule(end=ends, between_ms=steps_ms)
    def push_slowly(self, end: End, between_ms: int) -> None:
        """Both stages, and time between them (M13)."""
        self.put(self.a, self.sent, end)
        self.first_stage()
        self.time_passes(between_ms)
        self.get(PUSHED)
        self.second_stage()

    @rule(queue=st.sampled_from((PUSHED, FETCHED, REMOTE)))
    def get(self, queue: str) -> None:
        """Get; where nothing was there to be got, nothing in the way is overdue (M7)."""
        place = {PUSHED: self.pushed, FETCHED: self.fetched, REMOTE: self.remote}[queue]
        place.shown()
        locked = {uid: self.model.watchers[place].fired[uid] for uid in self.locked}
        try:
            message = place.manager.get_message(place.queue)
        except RuleRefused:
            assert self.model.watchers[place].mood is Mood.REFUSING
            return
        assert locked == {uid: self.model.watchers[place].fired[uid] for uid in self.locked}
        if message is not None:
            self.model.note_got(message, place)
            return
        assert not place.shown()
        met = self.model.fired_count(place)
        if not self.locked:
            place.manager.inquire_queue_size(place.queue)
            assert self.model.fired_count(place) == met

    @rule()
    def get_from_far(self) -> None:
        try:
            message = self.a.get_message(REMOTE, "B")
        except LinkDown:
            self.lost_gets += 1
        except RuleRefused:
            assert self.model.watchers[self.remote].mood is Mood.REFUSING
        else:
            if message is not None:
                self.model.note_got(message, self.remote)

    @rule()
    def lock(self) -> None:
        try:
            message = self.b.get_message(REMOTE, confirm_id=CONFIRM_ID)
        except RuleRefused:
            return
        if message is not None:
            assert not self.model.is_surely_over(message.uid, self.remote)
            self.locked.add(message.uid)

    @rule(confirms=st.booleans())
    def confirm_or_undo(self, confirms: bool) -> None:
        """What was got in time may be confirmed late, unless it was met meanwhile."""
        self.remote.shown()
        fired = self.model.fired_count(self.remote)
        for uid in self.locked if confirms else ():
            if uid in self.model.watchers[self.remote].fired:
                with pytest.raises(EveryplaceError):
                    self.b.confirm_get_message(REMOTE, uid)
            else:
                self.b.confirm_get_message(REMOTE, uid)
                self.model.got[uid] += 1
                assert self.model.got[uid] == 1
        self.b.undo(REMOTE, CONFIRM_ID)
        self.locked.clear()
        assert self.model.fired_count(self.remote) == fired

    @precondition(lambda self: self.fault_count < MAX_FAULTS)
    @rule(faults=st.lists(st.sampled_from(list(Fault)), min_size=1, max_size=3))
    def bad_network(self, faults: list[Fault]) -> None:
        self.fault_count += len(faults)
        self.link.fail_next(*faults)

    @rule(event=st.sampled_from(("deliver_delayed", "deliver_delayed", "cut", "restore")))
    def network_changes(self, event: str) -> None:
        getattr(self.link, event)()

    @rule(ms=steps_ms)
    def time_passes(self, ms: int) -> None:
        for place in self.model.watchers:
            place.shown()
        fired = [self.model.fired_count(place) for place in self.model.watchers]
        self.clock.advance(ms)
        for place in self.model.watchers:
            place.shown()
        assert fired == [self.model.fired_count(place) for place in self.model.watchers]

    @rule(activates=st.booleans())
    def check(self, activates: bool) -> None:
        """Two of the three moments for all, whatever their state (M8, M10)."""
        for place in self.model.watchers:
            if activates:
                place.manager.activate_queue(place.queue)
            else:
                place.manager.inquire_queue_size(place.queue)
            assert not self.model.overdue(place)
        assert not self.model.overdue_locked(self.locked, self.remote)
        for uid, place in self.unconfirmed.items():
            assert not self.model.overdue_locked({uid}, place)

    def teardown(self) -> None:
        if not hasattr(self, "model"):
            return
        with self.folders:
            self.end()

    def end(self) -> None:
        self.drain()
        self.clock.advance(FAR_MS)
        for place, watcher in self.model.watchers.items():
            assert place.manager.inquire_queue_size(place.queue) == 0, place
            assert not watcher.early
            assert set(watcher.fired.values()) <= {1}
        self.check_that_none_is_missing()
        for site in (self.at_a, self.at_b):
            dead = Place(site, DEAD_LETTER_QUEUE_NAME).shown()
            assert dead == self.model.copied_at(site)
        # One more exchange tells what is over; nothing else is kept in mind.
        self.a.inquire_queue_size(REMOTE, "B")
        assert len(self.b.peers.finished["A"].numbers) == 1
        assert not self.a.peers.finished["B"].numbers
        for site, queue in self.model.watchers:
            site.manager.delete_queue(queue)
        self.a.close()
        self.b.close()

    def drain(self) -> None:
        """Bring the network back and let everything arrive and be got."""
        for watcher in self.model.watchers.values():
            watcher.mood = Mood.CALM
        self.confirm_or_undo(confirms=False)
        self.confirm_or_undo_puts(confirms=False)
        self.link.restore()
        while self.link.deliver_delayed():
            pass
        for _ in range(40):
            self.a.transmit_put(PUSHED)
            self.a.transmit_confirm(PUSHED)
            self.pull()
            self.link.deliver_delayed()
            for place in (self.pushed, self.fetched, self.remote):
                while (message := place.manager.get_message(place.queue)) is not None:
                    self.model.note_got(message, place)

    def check_that_none_is_missing(self) -> None:
        missing = [
            life.place
            for uid, life in self.model.lives.items()
            if not (self.model.has_fired(uid) or self.model.got[uid] or uid in self.unsure)
        ]
        # Only a get at once whose answer was lost may have taken one without anybody's knowledge.
        assert len(missing) <= self.lost_gets
        assert set(missing) <= {self.remote}


class DurableMachine(NetworkMachine):
    """The same where queue managers restart, and crash in the middle of a verb."""

    is_durable = True


@pytest.fixture(autouse=True)
def _quiet_log() -> Iterator[None]:
    """A link that is down is part of the game and logged a thousand times."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("machine", "example_count"), [(NetworkMachine, 400), (DurableMachine, 200)]
)
def test_once_and_nothing_left_behind_whatever_network_and_clocks_do(
    machine: type[NetworkMachine], example_count: int
) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples(example_count),
            stateful_step_count=40,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
